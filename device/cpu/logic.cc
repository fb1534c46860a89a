// Comparisons and logic with numpy broadcasting: a byte of 0 or 1 an element, in any layout.
#include "device/common/dispatch.h"
#include "device/cpu/binary_row.h"
#include "device/math/binary.h"

namespace ebb::device::cpu {
namespace {

using namespace math;  // NOLINT(google-build-using-namespace): the functors

template <class F>
absl::StatusOr<Kernel> Compare(const Graph& graph, const Node& node) {
  EBB_ASSIGN_OR_RETURN(const auto plan, PlanBinary(graph, node));
  return ForNumberOrByte(node, In(graph, node).type.dtype, [&](auto zero) {
    using T = decltype(zero);
    return BinaryOf<T, uint8_t, F>(plan);
  });
}

template <class F>
absl::StatusOr<Kernel> Combine(const Graph& graph, const Node& node) {
  EBB_ASSIGN_OR_RETURN(const auto plan, PlanBinary(graph, node));
  return BinaryOf<uint8_t, uint8_t, F>(plan);
}

EBB_CLONES void NotRow(const uint8_t* x, uint8_t* y, int64_t n) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] == 0;
}

absl::StatusOr<Kernel> MakeNot(const Graph& graph, const Node& node) {
  return MakeKernel([n = OutElements(graph, node)](const KernelArgs& args) {
    NotRow(InPtr<uint8_t>(args), OutPtr<uint8_t>(args), n);
    return absl::OkStatus();
  });
}

constexpr KernelRow kRows[] = {
    {"And", Combine<And>}, {"Equal", Compare<Equal>}, {"Less", Compare<Less>},
    {"Not", MakeNot},      {"Or", Combine<Or>},       {"LessEqual", Compare<LessEqual>},
    {"Xor", Combine<Xor>},
};

}  // namespace

absl::Span<const KernelRow> LogicKernels() { return kRows; }

}  // namespace ebb::device::cpu
