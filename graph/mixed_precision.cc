#include "graph/mixed_precision.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "graph/op.h"
#include "graph/rewrite.h"

namespace ebb::graph {
namespace {

enum class Habit {
  kFull,     // computes in f32
  kLow,      // computes in bf16
  kFollow,   // in bf16 where all its float operands are
  kByFirst,  // as its first operand is; the others stay f32
};

Habit HabitOf(const Node& node) {
  static const auto* const table = new absl::flat_hash_map<absl::string_view, Habit>{
      {"Conv", Habit::kLow},           {"ConvGradInput", Habit::kLow},  // a transposed convolution
      {"MatMul", Habit::kLow},         {"Gemm", Habit::kLow},
      {"BatchNorm", Habit::kByFirst},  {"BatchNormInference", Habit::kByFirst},
      {"Dropout", Habit::kByFirst},    {"Abs", Habit::kFollow},
      {"Add", Habit::kFollow},         {"AddN", Habit::kFollow},
      {"AveragePool", Habit::kFollow}, {"Clip", Habit::kFollow},
      {"Concat", Habit::kFollow},      {"Elu", Habit::kFollow},
      {"Expand", Habit::kFollow},      {"Gather", Habit::kFollow},
      {"Gelu", Habit::kFollow},        {"HardSigmoid", Habit::kFollow},
      {"HardSwish", Habit::kFollow},   {"HardTanh", Habit::kFollow},
      {"Identity", Habit::kFollow},    {"LeakyRelu", Habit::kFollow},
      {"Max", Habit::kFollow},         {"MaxPool", Habit::kFollow},
      {"Min", Habit::kFollow},         {"Mul", Habit::kFollow},
      {"Neg", Habit::kFollow},         {"Pad", Habit::kFollow},
      {"Relu", Habit::kFollow},        {"Reshape", Habit::kFollow},
      {"Scale", Habit::kFollow},       {"Sigmoid", Habit::kFollow},
      {"Silu", Habit::kFollow},        {"Slice", Habit::kFollow},
      {"Sub", Habit::kFollow},         {"Tanh", Habit::kFollow},
      {"Transpose", Habit::kFollow},   {"Where", Habit::kFollow},
  };
  const auto it = table->find(node.op->name);
  return it == table->end() ? Habit::kFull : it->second;
}

class Pass {
 public:
  explicit Pass(const Graph& from)
      : from_(from), copy_(CopyLeaves(from, std::vector<bool>(from.nodes.size(), true))) {}

  absl::StatusOr<Graph> Run() {
    for (const Node& node : from_.nodes) EBB_RETURN_IF_ERROR(Copy(node));
    for (const ValueId id : from_.outputs) {
      EBB_ASSIGN_OR_RETURN(const ValueId out, Output(copy_.map[id.index()]));
      graph().outputs.push_back(out);
    }
    return std::move(graph());
  }

 private:
  Graph& graph() { return copy_.graph; }
  DType TypeOf(ValueId id) { return graph().value(id).type.dtype; }

  absl::Status Copy(const Node& node) {
    std::vector<ValueId> inputs = Mapped(copy_, node.inputs);
    EBB_RETURN_IF_ERROR(CastOperands(node, &inputs));
    EBB_ASSIGN_OR_RETURN(const NodeId id,
                         graph().AddNode(node.op->name, node.name, inputs, node.attrs, node.phase));
    const std::vector<ValueId> outputs = graph().node(id).outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Value& source = from_.value(node.outputs[i]);
      graph().Rename(outputs[i], source.name);
      graph().value(outputs[i]).role = source.role;
      copy_.map[source.id.index()] = outputs[i];
    }
    return absl::OkStatus();
  }

  absl::Status CastOperands(const Node& node, std::vector<ValueId>* inputs) {
    const Habit habit = HabitOf(node);
    const bool low = RunsLow(habit, *inputs);
    for (size_t i = 0; i < inputs->size(); ++i) {
      ValueId& input = (*inputs)[i];
      if (!input.valid()) continue;
      const bool wants_low = low && (habit != Habit::kByFirst || i == 0);
      const DType dtype = TypeOf(input);
      if (wants_low && dtype == DType::kF32) {
        EBB_ASSIGN_OR_RETURN(input, Cast(input, DType::kBF16));
      } else if (!wants_low && dtype == DType::kBF16) {
        EBB_ASSIGN_OR_RETURN(input, Cast(input, DType::kF32));
      }
    }
    return absl::OkStatus();
  }

  bool RunsLow(Habit habit, const std::vector<ValueId>& inputs) {
    const auto is = [&](ValueId id, DType dtype) { return id.valid() && TypeOf(id) == dtype; };
    const auto any = [&](DType dtype) {
      return std::any_of(inputs.begin(), inputs.end(), [&](ValueId id) { return is(id, dtype); });
    };
    switch (habit) {
      case Habit::kFull:
        return false;
      case Habit::kLow:
        return !any(DType::kF64);
      case Habit::kByFirst:
        return is(inputs[0], DType::kBF16);
      case Habit::kFollow:
        return any(DType::kBF16) && std::all_of(inputs.begin(), inputs.end(), [&](ValueId id) {
                 return !is(id, DType::kF32) || IsOneConstant(id);
               });
    }
    return false;
  }

  bool IsOneConstant(ValueId id) {
    const Value& value = graph().value(id);
    return value.role == Role::kConstant && NumElements(value.type.shape) == 1;
  }

  // The value in another precision, made where it is first wanted.
  absl::StatusOr<ValueId> Cast(ValueId id, DType to) {
    if (const auto it = cast_.find(id); it != cast_.end()) return it->second;
    const std::string name = absl::StrCat(graph().value(id).name, ".", Name(to));
    EBB_ASSIGN_OR_RETURN(const ValueId made,
                         graph().Add("Cast", name, {id}, {{"to", std::string(Name(to))}}));
    cast_[id] = made;
    cast_[made] = id;  // back without a second rounding
    return made;
  }

  // What others read of the graph is f32 under its old name.
  absl::StatusOr<ValueId> Output(ValueId id) {
    if (TypeOf(id) != DType::kBF16) return id;
    const std::string name = graph().value(id).name;
    graph().Rename(id, absl::StrCat(name, ".bf16"));
    EBB_ASSIGN_OR_RETURN(const ValueId made, Cast(id, DType::kF32));
    graph().Rename(made, name);
    return made;
  }

  const Graph& from_;
  GraphCopy copy_;
  absl::flat_hash_map<ValueId, ValueId> cast_;  // to the other precision
};

}  // namespace

absl::StatusOr<Graph> ToMixedPrecision(const Graph& forward) { return Pass(forward).Run(); }

}  // namespace ebb::graph
