// Walks an ONNX graph in order: folds what the host knows, converts the rest, binds the batch.
#include "model/import.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "model/fuse.h"
#include "model/host_fold.h"
#include "model/import_advice.h"
#include "model/onnx_bags.h"
#include "model/onnx_context.h"
#include "model/onnx_ops.h"
#include "model/onnx_survey.h"
#include "model/onnx_tensor.h"

namespace ebb::model {
namespace {

using graph::Graph;
using graph::Role;

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

// All elements of a vector of two or more are the same: what value-based de-duplication ties.
bool IsUniform(const HostTensor& tensor) {
  if (tensor.type.shape.size() != 1 || tensor.type.shape[0] < 2) return false;
  const auto size = static_cast<size_t>(graph::SizeOf(tensor.type.dtype).count());
  return std::equal(tensor.data.begin() + static_cast<std::ptrdiff_t>(size), tensor.data.end(),
                    tensor.data.begin());
}

class Importer {
 public:
  Importer(const onnx::ModelProto& model, const ImportOptions& options, int opset)
      : model_(model), graph_(model.graph()), opset_(opset), state_(options) {}

  absl::StatusOr<ImportedModel> Run() {
    if (state_.options.batch_size < 0) return Invalid("batch_size must not be negative");
    EBB_RETURN_IF_ERROR(CheckFeatures());
    EBB_ASSIGN_OR_RETURN(survey_, SurveyGraph(graph_, opset_));
    EBB_RETURN_IF_ERROR(CheckNoIntegerWeights(graph_, survey_, opset_));
    for (int index : survey_.order) {
      for (const std::string& input : graph_.node(index).input()) state_.read.insert(input);
    }
    for (const auto& output : graph_.output()) state_.read.insert(output.name());
    EBB_RETURN_IF_ERROR(AddInputs());
    EBB_RETURN_IF_ERROR(AddWeights());
    EBB_RETURN_IF_ERROR(AddConstants());
    for (int index : survey_.order) EBB_RETURN_IF_ERROR(Convert(index));
    EBB_RETURN_IF_ERROR(SetOutputs());
    EBB_ASSIGN_OR_RETURN(out(), FuseLayers(out()));
    for (std::string& warning : ExportWarnings(graph_, survey_)) {
      state_.result.warnings.push_back(std::move(warning));
    }
    state_.result.opset = opset_;
    EBB_RETURN_IF_ERROR(graph::Verify(state_.result.graph));
    return std::move(state_.result);
  }

 private:
  Graph& out() { return state_.result.graph; }

  absl::Status CheckFeatures() {
    if (graph_.sparse_initializer_size() > 0) {
      return absl::UnimplementedError("sparse initializers are not supported; store them densely");
    }
    if (model_.training_info_size() > 0) {
      state_.result.warnings.push_back(
          "the file's training_info is ignored: loss and optimizer are named in the job");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<TensorType> InputType(const onnx::ValueInfoProto& input) {
    const std::string where = absl::StrCat("input '", input.name(), "'");
    if (!input.type().has_tensor_type()) {
      return absl::UnimplementedError(
          absl::StrCat(where, " is no tensor; only tensors are supported"));
    }
    const auto& tensor = input.type().tensor_type();
    auto dtype = DTypeFromOnnx(tensor.elem_type());
    if (!dtype.ok()) return Annotate(dtype.status(), where);
    TensorType type{*dtype, {}};
    if (!tensor.has_shape()) return Invalid(absl::StrCat(where, " has no shape"));
    const int64_t batch = state_.options.batch_size;
    for (int axis = 0; axis < tensor.shape().dim_size(); ++axis) {
      const auto& dim = tensor.shape().dim(axis);
      const bool fixed = dim.has_dim_value() && dim.dim_value() >= 0;
      if (fixed && (axis > 0 || batch == 0 || dim.dim_value() == batch)) {
        type.shape.push_back(dim.dim_value());
      } else if (!fixed && axis == 0 && batch > 0) {
        type.shape.push_back(batch);
      } else if (fixed) {
        return Invalid(absl::StrCat(
            where, " has a fixed batch of ", dim.dim_value(), ", the job asks for ", batch,
            "; use that batch size, or export with a dynamic one: ", TorchScriptCall(graph_)));
      } else {
        return Invalid(absl::StrCat(
            where, ": axis ", axis, dim.dim_param().empty() ? "" : " ('", dim.dim_param(),
            dim.dim_param().empty() ? "" : "')",
            " is dynamic; only axis 0, the batch, may be. Export with fixed sizes elsewhere: ",
            TorchScriptCall(graph_)));
      }
    }
    const absl::Status status = CheckHostType(type);
    if (!status.ok()) return Annotate(status, where);
    return type;
  }

  absl::Status AddInputs() {
    for (const onnx::ValueInfoProto& input : graph_.input()) {
      if (survey_.initializer.contains(input.name())) continue;
      if (input.name().empty()) return Invalid("an input has no name");
      EBB_ASSIGN_OR_RETURN(TensorType type, InputType(input));
      Known known;
      known.type = type;
      known.id = out().AddValue(input.name(), std::move(type), Role::kInput);
      state_.values[input.name()] = std::move(known);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<HostTensor> ReadInitializer(const std::string& name) {
    auto tensor = ReadTensor(graph_.initializer(survey_.initializer.at(name)),
                             state_.options.external_data_dir, state_.options.external_data);
    if (!tensor.ok()) return Annotate(tensor.status(), absl::StrCat("initializer '", name, "'"));
    return tensor;
  }

  absl::Status AddWeights() {
    // In the file's order, so that a model lists its parameters as its author did.
    for (const onnx::TensorProto& proto : graph_.initializer()) {
      const auto it = survey_.weights.find(proto.name());
      if (it == survey_.weights.end()) continue;
      const Survey::Weight& weight = it->second;
      EBB_ASSIGN_OR_RETURN(HostTensor tensor, ReadInitializer(proto.name()));
      size_t copies = 1;
      const bool statistic = weight.kind == Survey::Kind::kBuffer;
      const bool tied = weight.uses.size() > 1 && !OnlyCut(weight) &&
                        (IsUniform(tensor) || (statistic && MutatesStatistics()));
      const bool kept = state_.options.keep_tied && !statistic;
      if (tied && !kept && !state_.options.untie_uniform) {
        return TiedWeight(graph_, proto.name(), weight, opset_);
      }
      if (tied && !kept) copies = weight.uses.size();
      for (size_t copy = 0; copy < copies; ++copy) {
        const std::string name = SplitName(proto.name(), copy);
        if (copy > 0) {
          split_[weight.uses[copy]] = name;
          if (survey_.initializer.contains(name) || survey_.producer.contains(name)) {
            return Invalid(absl::StrCat("'", name, "' exists, so '", proto.name(),
                                        "' cannot be split under that name"));
          }
        }
        Known known;
        known.type = tensor.type;
        known.id = out().AddValue(name, tensor.type, statistic ? Role::kBuffer : Role::kParam);
        if (out().value(known.id).name != name) {
          return Invalid(absl::StrCat("two values are named '", name, "'"));
        }
        state_.values[name] = std::move(known);
      }
      for (size_t copy = 1; copy < copies; ++copy) {
        state_.result.weights[SplitName(proto.name(), copy)] = tensor;
      }
      state_.result.weights[proto.name()] = std::move(tensor);
    }
    return absl::OkStatus();
  }

  // Its uses are pieces of it (the gates of a recurrent layer), not places that share it.
  bool OnlyCut(const Survey::Weight& weight) const {
    return std::all_of(weight.uses.begin(), weight.uses.end(), [&](const Survey::Use& use) {
      const std::string& op = graph_.node(use.first).op_type();
      return op == "Slice" || op == "Split";
    });
  }

  bool MutatesStatistics() const { return state_.options.batch_norm != BatchNormMode::kFrozen; }

  absl::Status AddConstants() {
    for (const onnx::TensorProto& proto : graph_.initializer()) {
      if (survey_.weights.contains(proto.name()) || !state_.read.contains(proto.name())) continue;
      EBB_ASSIGN_OR_RETURN(HostTensor tensor, ReadInitializer(proto.name()));
      Known known;
      known.type = tensor.type;
      known.host = std::make_shared<const HostTensor>(std::move(tensor));
      state_.values[proto.name()] = std::move(known);
    }
    return absl::OkStatus();
  }

  absl::Status Convert(int index) {
    const onnx::NodeProto& node = graph_.node(index);
    const OnnxOp* op = FindOnnxOp(node.op_type());
    const FoldRow* fold = FindFold(node.op_type());
    if (!IsStandardDomain(node.domain()) || (op == nullptr && fold == nullptr)) {
      return UnsupportedNode(graph_, node, opset_);
    }
    for (const onnx::AttributeProto& attr : node.attribute()) {
      if (attr.has_g() || attr.graphs_size() > 0) return UnsupportedNode(graph_, node, opset_);
    }
    const std::string where = NodeLabel(node, opset_);
    const int min_inputs = op != nullptr ? op->min_inputs : fold->min_inputs;
    const int max_inputs = op != nullptr ? op->max_inputs : fold->max_inputs;
    if (node.input_size() < min_inputs || (max_inputs >= 0 && node.input_size() > max_inputs)) {
      return Invalid(absl::StrCat(where, ": it has ", node.input_size(), " inputs"));
    }
    std::vector<std::string> names;
    std::vector<NodeView::Input> inputs;
    std::vector<std::shared_ptr<const HostTensor>> held;  // for as long as the node is converted
    bool all_known = true;
    for (int i = 0; i < node.input_size(); ++i) {
      const auto split = split_.find({index, i});
      names.push_back(split == split_.end() ? node.input(i) : split->second);
      NodeView::Input& input = inputs.emplace_back();
      if (names.back().empty()) {
        if (i < min_inputs || max_inputs < 0) {
          return Invalid(absl::StrCat(where, ": input ", i, " is missing"));
        }
        continue;
      }
      if (op != nullptr && op->name == "SequenceAt" && i == 0 &&
          state_.sequences.contains(names.back())) {
        input.present = true;
        all_known = false;
        continue;
      }
      const auto it = state_.values.find(names.back());
      if (it == state_.values.end() && state_.sequences.contains(names.back())) {
        return UnsupportedNode(graph_, node, opset_);
      }
      if (it == state_.values.end()) {
        return Invalid(
            absl::StrCat(where, ": output '", names.back(), "' of another node is never made"));
      }
      input.present = true;
      input.type = it->second.type;
      input.host = it->second.host.get();
      held.push_back(it->second.host);
      all_known = all_known && input.host != nullptr;
    }
    std::string label =
        node.name().empty() ? absl::StrCat(node.op_type(), "_", index) : node.name();
    ConvertContext context(node, opset_, std::move(label), std::move(names), std::move(inputs),
                           &state_);
    if (fold != nullptr && (all_known || fold->types_only)) {
      EBB_ASSIGN_OR_RETURN(std::vector<HostTensor> outputs, fold->fold(context, state_.budget));
      EBB_RETURN_IF_ERROR(context.attr_status());
      for (size_t i = 0; i < outputs.size(); ++i) context.SetHost(i, std::move(outputs[i]));
      return absl::OkStatus();
    }
    if (op == nullptr) {
      return absl::UnimplementedError(absl::StrCat(
          where,
          ": this op is computed on shapes and constants only, but its inputs depend on "
          "data or on trained weights. ",
          AdviceFor(node.op_type())));
    }
    absl::Status status = op->convert(context);
    EBB_RETURN_IF_ERROR(context.attr_status());
    if (status.ok() || absl::StrContains(status.message(), where)) return status;
    return Annotate(status, where);
  }

  absl::Status SetOutputs() {
    for (const auto& output : graph_.output()) {
      const std::string& name = output.name();
      if (state_.sequences.contains(name)) {
        return absl::UnimplementedError(absl::StrCat(
            "output '", name, "' is a sequence; let the model return tensors (torch.stack)"));
      }
      if (!state_.values.contains(name)) {
        return Invalid(absl::StrCat("output '", name, "' is not made by its node"));
      }
      EBB_ASSIGN_OR_RETURN(ValueId id, state_.Materialize(name));
      if (out().value(id).name != name) {
        const ValueId other = out().Find(name);
        if (other.valid()) out().Rename(other, absl::StrCat(name, "/inner"));
        const auto& outputs = out().outputs;
        const bool taken = std::find(outputs.begin(), outputs.end(), id) != outputs.end();
        if (taken || !out().value(id).producer.valid()) {
          EBB_ASSIGN_OR_RETURN(id, out().Add("Identity", name, {id}));
        } else {
          out().Rename(id, name);
        }
      }
      out().outputs.push_back(id);
    }
    return absl::OkStatus();
  }

  const onnx::ModelProto& model_;
  const onnx::GraphProto& graph_;
  const int opset_;
  ImportState state_;
  Survey survey_;
  std::map<Survey::Use, std::string> split_;  // names of weights that untie_uniform has split
};

}  // namespace

absl::StatusOr<ImportedModel> ImportOnnx(absl::string_view bytes, const ImportOptions& options) {
  EBB_ASSIGN_OR_RETURN(onnx::ModelProto model, ParseModel(bytes));
  EBB_ASSIGN_OR_RETURN(const int opset, StandardOpset(model));
  ReplaceEmbeddingBags(model.mutable_graph());
  return Importer(model, options, opset).Run();
}

}  // namespace ebb::model
