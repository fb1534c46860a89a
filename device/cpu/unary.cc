// Elementwise ops of one input and their gradients: any layout, in place or not.
#include "device/common/unary_rows.h"
#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

template <class From, class To, bool kToBool>
Kernel CastBy(int64_t n) {
  return MakeKernel([n](const KernelArgs& args) {
    const From* x = InPtr<From>(args);
    To* y = OutPtr<To>(args);
    if constexpr (kToBool) {
      for (int64_t i = 0; i < n; ++i) y[i] = x[i] != From(0) ? To(1) : To(0);
    } else {
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<To>(x[i]);
    }
    return absl::OkStatus();
  });
}

template <class From>
absl::StatusOr<Kernel> CastFrom(const Node& node, DType to, int64_t n) {
  if (to == DType::kBool) return CastBy<From, uint8_t, true>(n);
  return ForStored(node, to, [n](auto zero) { return CastBy<From, decltype(zero), false>(n); });
}

struct Makers {
  template <class F>
  static absl::StatusOr<Kernel> Unary(const Graph& graph, const Node& node) {
    if (const DType dtype = In(graph, node).type.dtype; dtype != DType::kF32) {
      return BadType(node, dtype);
    }
    return MakeKernel([f = F(node.attrs), n = OutElements(graph, node)](const KernelArgs& args) {
      Map1(InPtr<float>(args), OutPtr<float>(args), n, f);
      return absl::OkStatus();
    });
  }

  template <class F>
  static absl::StatusOr<Kernel> Gradient(const Graph& graph, const Node& node) {
    EBB_RETURN_IF_ERROR(RequireF32(graph, node));
    return MakeKernel([f = F(node.attrs), n = OutElements(graph, node)](const KernelArgs& args) {
      Map2(InPtr<float>(args, 0), InPtr<float>(args, 1), OutPtr<float>(args), n, f);
      return absl::OkStatus();
    });
  }
  static absl::StatusOr<Kernel> Cast(const Graph& graph, const Node& node) {
    const int64_t n = OutElements(graph, node);
    const DType to = Out(graph, node).type.dtype;
    return ForStored(node, In(graph, node).type.dtype,
                     [&](auto from) { return CastFrom<decltype(from)>(node, to, n); });
  }
};

}  // namespace

absl::Span<const KernelRow> UnaryKernels() { return UnaryRows<KernelRow, Makers>::Rows(); }

}  // namespace ebb::device::cpu
