// Elementwise ops of one input and their gradients: any layout, in place or not.
#include "device/math/unary.h"

#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

using namespace math;  // NOLINT(google-build-using-namespace): the functors

template <class F>
absl::StatusOr<Kernel> Unary(const Graph& graph, const Node& node) {
  if (const DType dtype = In(graph, node).type.dtype; dtype != DType::kF32) {
    return BadType(node, dtype);
  }
  return MakeKernel([f = F(node.attrs), n = OutElements(graph, node)](const KernelArgs& args) {
    Map1(InPtr<float>(args), OutPtr<float>(args), n, f);
    return absl::OkStatus();
  });
}

template <class F>
absl::StatusOr<Kernel> Gradient(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  return MakeKernel([f = F(node.attrs), n = OutElements(graph, node)](const KernelArgs& args) {
    Map2(InPtr<float>(args, 0), InPtr<float>(args, 1), OutPtr<float>(args), n, f);
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeGelu(const Graph& graph, const Node& node) {
  return node.attrs.Str("approximate", "none") == "tanh" ? Unary<GeluTanh>(graph, node)
                                                         : Unary<GeluErf>(graph, node);
}
absl::StatusOr<Kernel> MakeGeluGrad(const Graph& graph, const Node& node) {
  return node.attrs.Str("approximate", "none") == "tanh" ? Gradient<GeluTanh>(graph, node)
                                                         : Gradient<GeluErf>(graph, node);
}

template <class From, class To>
Kernel CastKernel(int64_t n, bool to_bool) {
  return MakeKernel([n, to_bool](const KernelArgs& args) {
    const From* x = InPtr<From>(args);
    To* y = OutPtr<To>(args);
    if (to_bool) {
      for (int64_t i = 0; i < n; ++i) y[i] = x[i] != From(0) ? To(1) : To(0);
    } else {
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<To>(x[i]);
    }
    return absl::OkStatus();
  });
}

template <class From>
Kernel CastFrom(DType to, int64_t n) {
  switch (to) {
    case DType::kF32:
      return CastKernel<From, float>(n, false);
    case DType::kF64:
      return CastKernel<From, double>(n, false);
    case DType::kI32:
      return CastKernel<From, int32_t>(n, false);
    case DType::kI64:
      return CastKernel<From, int64_t>(n, false);
    case DType::kU8:
      return CastKernel<From, uint8_t>(n, false);
    case DType::kBool:
    case DType::kBF16:
      break;
  }
  return CastKernel<From, uint8_t>(n, true);
}

absl::StatusOr<Kernel> MakeCast(const Graph& graph, const Node& node) {
  const int64_t n = OutElements(graph, node);
  const DType to = Out(graph, node).type.dtype;
  if (to == DType::kBF16) return BadType(node, to);
  switch (In(graph, node).type.dtype) {
    case DType::kF32:
      return CastFrom<float>(to, n);
    case DType::kF64:
      return CastFrom<double>(to, n);
    case DType::kI32:
      return CastFrom<int32_t>(to, n);
    case DType::kI64:
      return CastFrom<int64_t>(to, n);
    case DType::kU8:
    case DType::kBool:
      break;
    case DType::kBF16:
      return BadType(node, DType::kBF16);
  }
  return CastFrom<uint8_t>(to, n);
}

constexpr KernelRow kRows[] = {
    {"Abs", Unary<Abs>},
    {"Atan", Unary<AtanOp>},
    {"Ceil", Unary<Ceil>},
    {"Cos", Unary<CosOp>},
    {"Floor", Unary<Floor>},
    {"Round", Unary<Round>},
    {"Sin", Unary<SinOp>},
    {"Cast", MakeCast},
    {"Clip", Unary<Clip>},
    {"ClipGrad", Gradient<Clip>},
    {"Elu", Unary<Elu>},
    {"EluGrad", Gradient<Elu>},
    {"Erf", Unary<ErfOp>},
    {"ErfGrad", Gradient<ErfOp>},
    {"Exp", Unary<ExpOp>},
    {"Gelu", MakeGelu},
    {"GeluGrad", MakeGeluGrad},
    {"HardSigmoid", Unary<HardSigmoid>},
    {"HardSigmoidGrad", Gradient<HardSigmoid>},
    {"HardTanh", Unary<HardTanh>},
    {"HardTanhGrad", Gradient<HardTanh>},
    {"HardSwish", Unary<HardSwish>},
    {"HardSwishGrad", Gradient<HardSwish>},
    {"LeakyRelu", Unary<LeakyRelu>},
    {"LeakyReluGrad", Gradient<LeakyRelu>},
    {"Log", Unary<LogOp>},
    {"Neg", Unary<Neg>},
    {"Reciprocal", Unary<Reciprocal>},
    {"Relu", Unary<Relu>},
    {"ReluGrad", Gradient<ReluGrad>},
    {"Scale", Unary<ScaleOp>},
    {"Sigmoid", Unary<SigmoidOp>},
    {"SigmoidGrad", Gradient<SigmoidOp>},
    {"Silu", Unary<Silu>},
    {"SiluGrad", Gradient<Silu>},
    {"Sign", Unary<Sign>},
    {"Softplus", Unary<Softplus>},
    {"SoftplusGrad", Gradient<Softplus>},
    {"Sqrt", Unary<SqrtOp>},
    {"Tanh", Unary<TanhOp>},
    {"TanhGrad", Gradient<TanhOp>},
};

}  // namespace

absl::Span<const KernelRow> UnaryKernels() { return kRows; }

}  // namespace ebb::device::cpu
