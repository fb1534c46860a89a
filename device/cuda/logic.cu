// Comparisons and logic with numpy broadcasting: a byte of 0 or 1 an element, in any layout.
#include "base/status.h"
#include "device/common/dispatch.h"
#include "device/cuda/broadcast_map.h"
#include "device/math/binary.h"

namespace ebb::device::cuda {
namespace {

using namespace math;  // NOLINT(google-build-using-namespace): the functors

template <class F>
absl::StatusOr<CudaKernel> Compare(const Graph& graph, const Node& node) {
  EBB_ASSIGN_OR_RETURN(const auto plan, PlanBinary(graph, node));
  return ForNumberOrByte(node, In(graph, node).type.dtype, [&](auto zero) {
    using T = decltype(zero);
    return BroadcastKernel<uint8_t, T, T>(plan, F());
  });
}

template <class F>
absl::StatusOr<CudaKernel> Combine(const Graph& graph, const Node& node) {
  EBB_ASSIGN_OR_RETURN(const auto plan, PlanBinary(graph, node));
  return BroadcastKernel<uint8_t, uint8_t, uint8_t>(plan, F());
}

struct Not {
  EBB_INLINE uint8_t operator()(uint8_t x) const { return x == 0; }
};

absl::StatusOr<CudaKernel> MakeNot(const Graph& graph, const Node& node) {
  return MakeCudaKernel([n = OutElements(graph, node)](const Launch& at, const KernelArgs& args) {
    return Map(at, n, Not(), OutPtr<uint8_t>(args), InPtr<uint8_t>(args));
  });
}

constexpr CudaKernelRow kRows[] = {
    {"And", Combine<And>}, {"Equal", Compare<Equal>}, {"Less", Compare<Less>},
    {"Not", MakeNot},      {"Or", Combine<Or>},       {"LessEqual", Compare<LessEqual>},
    {"Xor", Combine<Xor>},
};

}  // namespace

absl::Span<const CudaKernelRow> LogicKernels() { return kRows; }

}  // namespace ebb::device::cuda
