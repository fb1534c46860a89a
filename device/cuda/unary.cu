// Elementwise ops of one input and their gradients: any layout, in place or not.
#include "base/status.h"
#include "device/cuda/launch.h"
#include "device/math/unary.h"

namespace ebb::device::cuda {
namespace {

using namespace math;  // NOLINT(google-build-using-namespace): the functors

template <class F>
absl::StatusOr<CudaKernel> Unary(const Graph& graph, const Node& node) {
  if (const DType dtype = In(graph, node).type.dtype; dtype != DType::kF32) {
    return BadType(node, dtype);
  }
  return MakeCudaKernel(
      [f = F(node.attrs), n = OutElements(graph, node)](const Launch& at, const KernelArgs& args) {
        return Map(at, n, f, OutPtr<float>(args), InPtr<float>(args));
      });
}

template <class F>
absl::StatusOr<CudaKernel> Gradient(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  return MakeCudaKernel(
      [f = F(node.attrs), n = OutElements(graph, node)](const Launch& at, const KernelArgs& args) {
        return Map(at, n, f, OutPtr<float>(args), InPtr<float>(args, 0), InPtr<float>(args, 1));
      });
}

absl::StatusOr<CudaKernel> MakeGelu(const Graph& graph, const Node& node) {
  return node.attrs.Str("approximate", "none") == "tanh" ? Unary<GeluTanh>(graph, node)
                                                         : Unary<GeluErf>(graph, node);
}
absl::StatusOr<CudaKernel> MakeGeluGrad(const Graph& graph, const Node& node) {
  return node.attrs.Str("approximate", "none") == "tanh" ? Gradient<GeluTanh>(graph, node)
                                                         : Gradient<GeluErf>(graph, node);
}

template <class From, class To>
struct ConvertTo {
  EBB_INLINE To operator()(From x) const { return static_cast<To>(x); }
};
template <class From>
struct IsNotZero {
  EBB_INLINE uint8_t operator()(From x) const { return x != From(0) ? 1 : 0; }
};

template <class From, class To, class F>
CudaKernel CastBy(int64_t n) {
  return MakeCudaKernel([n](const Launch& at, const KernelArgs& args) {
    return Map(at, n, F(), OutPtr<To>(args), InPtr<From>(args));
  });
}

template <class From>
CudaKernel CastFrom(DType to, int64_t n) {
  switch (to) {
    case DType::kF32:
      return CastBy<From, float, ConvertTo<From, float>>(n);
    case DType::kF64:
      return CastBy<From, double, ConvertTo<From, double>>(n);
    case DType::kI32:
      return CastBy<From, int32_t, ConvertTo<From, int32_t>>(n);
    case DType::kI64:
      return CastBy<From, int64_t, ConvertTo<From, int64_t>>(n);
    case DType::kU8:
      return CastBy<From, uint8_t, ConvertTo<From, uint8_t>>(n);
    case DType::kBool:
    case DType::kBF16:  // nodes of bf16 do not come here
      break;
  }
  return CastBy<From, uint8_t, IsNotZero<From>>(n);
}

absl::StatusOr<CudaKernel> MakeCast(const Graph& graph, const Node& node) {
  const int64_t n = OutElements(graph, node);
  const DType to = Out(graph, node).type.dtype;
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
    case DType::kBF16:
      break;
  }
  return CastFrom<uint8_t>(to, n);
}

constexpr CudaKernelRow kRows[] = {
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

absl::Span<const CudaKernelRow> UnaryKernels() { return kRows; }

}  // namespace ebb::device::cuda
