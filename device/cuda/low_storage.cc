#include "device/cuda/low_storage.h"

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/op.h"

namespace ebb::device::cuda {
namespace {

using graph::DType;
using graph::Graph;
using graph::Node;

constexpr uint32_t kAll = ~0u;
static_assert(kMaxLowInputs == 32);

// The operands that the op's kernel takes in 16 bits, one a bit: all floats among them together,
// of one type. Floats that are not among them are f32.
struct LowOperands {
  uint32_t in = kAll;
  uint32_t out = kAll;
};

const LowOperands* Find(absl::string_view op) {
  static const auto* const table = new absl::flat_hash_map<absl::string_view, LowOperands>{
      // Elements are moved.
      {"Concat", {}},
      {"Expand", {}},
      {"Gather", {}},
      {"Identity", {}},
      {"Pad", {}},
      {"Reshape", {}},
      {"Slice", {}},
      {"SliceGrad", {}},
      {"ToChannelsLast", {}},
      {"ToPlain", {}},
      {"Transpose", {}},
      {"Where", {}},
      // Functions of single elements.
      {"Abs", {}},
      {"Add", {}},
      {"AddN", {}},
      {"Clip", {}},
      {"ClipGrad", {}},
      {"Elu", {}},
      {"EluGrad", {}},
      {"Gelu", {}},
      {"GeluGrad", {}},
      {"HardSigmoid", {}},
      {"HardSigmoidGrad", {}},
      {"HardSwish", {}},
      {"HardSwishGrad", {}},
      {"HardTanh", {}},
      {"HardTanhGrad", {}},
      {"LeakyRelu", {}},
      {"LeakyReluGrad", {}},
      {"Max", {}},
      {"Min", {}},
      {"Mul", {}},
      {"Neg", {}},
      {"Relu", {}},
      {"ReluGrad", {}},
      {"Scale", {}},
      {"Sigmoid", {}},
      {"SigmoidGrad", {}},
      {"Sign", {}},
      {"Silu", {}},
      {"SiluGrad", {}},
      {"Sub", {}},
      {"Tanh", {}},
      {"TanhGrad", {}},
      {"Dropout", {}},
      {"DropoutGrad", {}},
      // By the libraries, in sums of float.
      {"Conv", {}},
      {"ConvGradInput", {}},
      {"ConvGradWeight", {}},
      {"Gemm", {}},
      {"MatMul", {}},
      // Sums, in float.
      {"AveragePool", {}},
      {"AveragePoolGrad", {}},
      {"GatherGrad", {}},
      {"MaxPool", {}},
      {"MaxPoolGrad", {}},
      {"ReduceSum", {}},
      {"SumTo", {}},
      // Activations and their gradients; parameters and statistics are f32.
      {"BatchNorm", {.in = 0b1, .out = 0b1}},
      {"BatchNormGrad", {.in = 0b11, .out = 0b1}},
      {"BatchNormInference", {.in = 0b1, .out = 0b1}},
      {"BatchNormInferenceGrad", {.in = 0b11, .out = 0b1}},
  };
  const auto it = table->find(op);
  return it == table->end() ? nullptr : &it->second;
}

// What the floats of the operands have to do with 16 bits.
struct Seen {
  DType low = DType::kF32;  // of those that may have them
  bool fits = true;
};

void Look(const Graph& graph, absl::Span<const ValueId> ids, uint32_t mask, Seen* seen) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!ids[i].valid()) continue;
    const DType dtype = graph.value(ids[i]).type.dtype;
    if (!graph::IsFloat(dtype)) continue;
    const bool may = i < 32 && ((mask >> i) & 1) != 0;
    if (!may) {
      seen->fits &= dtype == DType::kF32;
    } else if (!graph::IsLow(dtype)) {
      seen->fits = false;
    } else {
      seen->fits &= seen->low == DType::kF32 || seen->low == dtype;
      seen->low = dtype;
    }
  }
}

bool IsActivation(DType dtype) { return dtype == DType::kF32 || graph::IsLow(dtype); }

}  // namespace

bool TakesLow(const Graph& graph, const Node& node) {
  if (node.op->name == "Cast") {
    const DType from = graph.value(node.inputs[0]).type.dtype;
    const DType to = graph.value(node.outputs[0]).type.dtype;
    return IsActivation(from) && IsActivation(to) && (graph::IsLow(from) || graph::IsLow(to));
  }
  const LowOperands* const operands = Find(node.op->name);
  if (operands == nullptr) return false;
  Seen seen;
  Look(graph, node.inputs, operands->in, &seen);
  Look(graph, node.outputs, operands->out, &seen);
  return seen.fits && graph::IsLow(seen.low);
}

}  // namespace ebb::device::cuda
