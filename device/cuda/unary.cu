// Elementwise ops of one input and their gradients: any layout, in place or not.
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

struct Makers {
  template <class F>
  static absl::StatusOr<CudaKernel> Unary(const Graph& graph, const Node& node) {
    if (const DType dtype = In(graph, node).type.dtype; dtype != DType::kF32) {
      return BadType(node, dtype);
    }
    return MakeCudaKernel([f = F(node.attrs), n = OutElements(graph, node)](
                              const Launch& at, const KernelArgs& args) {
      return Map(at, n, f, OutPtr<float>(args), InPtr<float>(args));
    });
  }

  template <class F>
  static absl::StatusOr<CudaKernel> Gradient(const Graph& graph, const Node& node) {
    EBB_RETURN_IF_ERROR(RequireF32(graph, node));
    return MakeCudaKernel([f = F(node.attrs), n = OutElements(graph, node)](
                              const Launch& at, const KernelArgs& args) {
      return Map(at, n, f, OutPtr<float>(args), InPtr<float>(args, 0), InPtr<float>(args, 1));
    });
  }
  static absl::StatusOr<CudaKernel> Cast(const Graph& graph, const Node& node) {
    const int64_t n = OutElements(graph, node);
    const DType to = Out(graph, node).type.dtype;
    return ForStored(node, In(graph, node).type.dtype,
                     [&](auto from) { return CastFrom<decltype(from)>(node, to, n); });
  }
};

}  // namespace

absl::Span<const CudaKernelRow> UnaryKernels() { return UnaryRows<CudaKernelRow, Makers>::Rows(); }

}  // namespace ebb::device::cuda
