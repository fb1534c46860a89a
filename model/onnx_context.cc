// Emitting graph nodes for one ONNX node.
#include "model/onnx_context.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace ebb::model {

using graph::Attrs;
using graph::Graph;
using graph::Role;

absl::StatusOr<ValueId> ImportState::Materialize(const std::string& name) {
  ebb::model::Known& known = values.at(name);
  if (known.id.valid()) return known.id;
  if (known.host != nullptr) {
    known.id = result.graph.AddConstant(name, *known.host);
  } else {
    EBB_ASSIGN_OR_RETURN(
        known.id, result.graph.Add("Transpose", name, {known.source}, Attrs{{"perm", known.perm}}));
  }
  return known.id;
}

absl::StatusOr<ValueId> ConvertContext::In(size_t i) {
  if (!Has(i)) return Invalid(absl::StrCat("input ", i, " is missing"));
  return state_->Materialize(names_[i]);
}

absl::StatusOr<ValueId> ConvertContext::OptionalIn(size_t i) {
  if (!Has(i)) return ValueId();
  return In(i);
}

absl::StatusOr<ConvertContext::Operand> ConvertContext::InMaybeTransposed(size_t i) {
  if (Has(i)) {
    const ebb::model::Known& known = state_->values.at(names_[i]);
    const size_t rank = known.perm.size();
    bool swap = !known.id.valid() && known.source.valid() && rank >= 2;
    for (size_t axis = 0; swap && axis < rank; ++axis) {
      const size_t expected = axis + 2 < rank ? axis : 2 * rank - 3 - axis;
      swap = known.perm[axis] == static_cast<int64_t>(expected);
    }
    if (swap) return Operand{known.source, true};
  }
  EBB_ASSIGN_OR_RETURN(const ValueId id, In(i));
  return Operand{id, false};
}

absl::StatusOr<ValueId> ConvertContext::Promote(size_t i, Role role) {
  if (!Has(i)) return Invalid(absl::StrCat("input ", i, " is missing"));
  ebb::model::Known& known = state_->values.at(names_[i]);
  if (known.host == nullptr || known.id.valid() || !graph::IsFloat(known.type.dtype)) {
    return In(i);
  }
  Graph& graph = state_->result.graph;
  known.id = graph.AddValue(names_[i], known.type, role);
  state_->result.weights[graph.value(known.id).name] = *known.host;
  known.host = nullptr;  // from now on it may change
  return known.id;
}

absl::StatusOr<ValueId> ConvertContext::Weight(size_t i) { return Promote(i, Role::kParam); }
absl::StatusOr<ValueId> ConvertContext::Statistic(size_t i) { return Promote(i, Role::kBuffer); }

bool ConvertContext::SharesStatistics(ValueId mean, ValueId var) {
  const bool mean_is_new = state_->written.insert(mean).second;
  const bool var_is_new = state_->written.insert(var).second;
  return !mean_is_new || !var_is_new;
}

ValueId ConvertContext::Rng() {
  Graph& graph = state_->result.graph;
  const ValueId existing = graph.Find("ebb.rng");
  if (existing.valid()) return existing;
  return graph.AddValue("ebb.rng", {DType::kI64, {2}}, Role::kScalar);
}

absl::StatusOr<ValueId> ConvertContext::Emit(absl::string_view op, std::vector<ValueId> inputs,
                                             Attrs attrs) {
  return state_->result.graph.Add(op, absl::StrCat(label_, "/", op), std::move(inputs),
                                  std::move(attrs));
}

absl::Status ConvertContext::Result(absl::string_view op, std::vector<ValueId> inputs,
                                    Attrs attrs) {
  EBB_ASSIGN_OR_RETURN(const ValueId id,
                       state_->result.graph.Add(op, label_, std::move(inputs), std::move(attrs)));
  SetOutput(0, id);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ValueId>> ConvertContext::EmitAll(absl::string_view op,
                                                             std::vector<ValueId> inputs,
                                                             Attrs attrs) {
  Graph& graph = state_->result.graph;
  EBB_ASSIGN_OR_RETURN(const NodeId id,
                       graph.AddNode(op, label_, std::move(inputs), std::move(attrs)));
  return graph.node(id).outputs;
}

ValueId ConvertContext::Constant(HostTensor tensor) {
  return state_->result.graph.AddConstant(absl::StrCat(label_, "/const"), std::move(tensor));
}

absl::StatusOr<HostTensor> ConvertContext::Allocate(TensorType type) {
  auto tensor = state_->budget.Allocate(std::move(type));
  if (!tensor.ok()) return Invalid(tensor.status().message());
  return tensor;
}

bool ConvertContext::Wants(size_t output) const {
  if (output >= num_outputs()) return false;
  const std::string& name = proto().output(static_cast<int>(output));
  return !name.empty() && state_->read.contains(name);
}

void ConvertContext::SetOutput(size_t output, ValueId id) {
  if (output >= num_outputs()) return;
  ebb::model::Known known;
  known.type = TypeOf(id);
  known.id = id;
  state_->values[proto().output(static_cast<int>(output))] = std::move(known);
}

void ConvertContext::SetSequence(std::vector<ValueId> parts) {
  state_->sequences[proto().output(0)] = std::move(parts);
}

const std::vector<ValueId>* ConvertContext::Sequence(size_t i) const {
  const auto it = state_->sequences.find(names_[i]);
  return it == state_->sequences.end() ? nullptr : &it->second;
}

void ConvertContext::SetHost(size_t output, HostTensor tensor) {
  if (output >= num_outputs()) return;
  ebb::model::Known known;
  known.type = tensor.type;
  known.host = std::make_shared<const HostTensor>(std::move(tensor));
  state_->values[proto().output(static_cast<int>(output))] = std::move(known);
}

void ConvertContext::Alias(size_t input) {
  ebb::model::Known known = state_->values.at(names_[input]);
  state_->values[proto().output(0)] = std::move(known);
}

void ConvertContext::DeferTranspose(ValueId source, std::vector<int64_t> perm) {
  ebb::model::Known known;
  known.type.dtype = TypeOf(source).dtype;
  for (int64_t axis : perm) {
    known.type.shape.push_back(TypeOf(source).shape[static_cast<size_t>(axis)]);
  }
  known.source = source;
  known.perm = std::move(perm);
  state_->values[proto().output(0)] = std::move(known);
}

void ConvertContext::Warn(absl::string_view what) {
  state_->result.warnings.push_back(absl::StrCat(NodeLabel(proto(), opset()), ": ", what));
}

}  // namespace ebb::model
