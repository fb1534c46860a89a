// Elementwise ops of one input and their gradients: any layout, in place or not.
#include <type_traits>

#include "base/status.h"
#include "device/common/unary_rows.h"
#include "device/cuda/launch.h"

namespace ebb::device::cuda {
namespace {

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
absl::StatusOr<CudaKernel> CastFrom(const Node& node, DType to, int64_t n) {
  if (to == DType::kBool) return CastBy<From, uint8_t, IsNotZero<From>>(n);
  return ForStored(node, to, [n](auto zero) {
    using To = decltype(zero);
    return CastBy<From, To, ConvertTo<From, To>>(n);
  });
}

// Between floats of 32 and 16 bits: reading and writing them is all.
absl::StatusOr<CudaKernel> CastLow(const Node& node, DType from, DType to, int64_t n) {
  return ForFloat(node, from, [&](auto stored) {
    using From = decltype(stored);
    return ForFloat(node, to, [&](auto zero) {
      return CastBy<From, decltype(zero), ConvertTo<float, float>>(n);
    });
  });
}

template <class T, class F>
CudaKernel UnaryOf(const Graph& graph, const Node& node) {
  return MakeCudaKernel(
      [f = F(node.attrs), n = OutElements(graph, node)](const Launch& at, const KernelArgs& args) {
        return Map(at, n, f, OutPtr<T>(args), InPtr<T>(args));
      });
}

template <class T, class F>
CudaKernel GradientOf(const Graph& graph, const Node& node) {
  return MakeCudaKernel(
      [f = F(node.attrs), n = OutElements(graph, node)](const Launch& at, const KernelArgs& args) {
        return Map(at, n, f, OutPtr<T>(args), InPtr<T>(args, 0), InPtr<T>(args, 1));
      });
}

// Functions that mixed precision leaves in 16 bits (low_storage.cc); the others are of f32 alone,
// for the sake of the code's size.
template <class F, class... Of>
inline constexpr bool kIsOneOf = (std::is_same_v<F, Of> || ...);
template <class F>
inline constexpr bool kStaysLow =
    kIsOneOf<F, math::Abs, math::Clip, math::Elu, math::GeluErf, math::GeluTanh, math::HardSigmoid,
             math::HardSwish, math::HardTanh, math::LeakyRelu, math::Neg, math::Relu,
             math::ReluGrad, math::ScaleOp, math::SigmoidOp, math::Sign, math::Silu, math::TanhOp>;

// make(T()) for what a function's operands may be stored in.
template <class F, class Make>
absl::StatusOr<CudaKernel> ForOperands(const Node& node, DType dtype, const Make& make) {
  if constexpr (kStaysLow<F>) {
    return ForFloat(node, dtype, make);
  } else {
    if (dtype != DType::kF32) return BadType(node, dtype);
    return make(float());
  }
}

struct Makers {
  template <class F>
  static absl::StatusOr<CudaKernel> Unary(const Graph& graph, const Node& node) {
    return ForOperands<F>(node, In(graph, node).type.dtype,
                          [&](auto zero) { return UnaryOf<decltype(zero), F>(graph, node); });
  }

  template <class F>
  static absl::StatusOr<CudaKernel> Gradient(const Graph& graph, const Node& node) {
    return ForOperands<F>(node, Out(graph, node).type.dtype,
                          [&](auto zero) { return GradientOf<decltype(zero), F>(graph, node); });
  }
  static absl::StatusOr<CudaKernel> Cast(const Graph& graph, const Node& node) {
    const int64_t n = OutElements(graph, node);
    const DType from = In(graph, node).type.dtype;
    const DType to = Out(graph, node).type.dtype;
    if (graph::IsLow(from) || graph::IsLow(to)) return CastLow(node, from, to, n);
    return ForStored(node, from, [&](auto zero) { return CastFrom<decltype(zero)>(node, to, n); });
  }
};

}  // namespace

absl::Span<const CudaKernelRow> UnaryKernels() { return UnaryRows<CudaKernelRow, Makers>::Rows(); }

}  // namespace ebb::device::cuda
