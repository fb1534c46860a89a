// Gather (embedding look-ups) and its gradient, which adds rows in the order of the indices.
#include <algorithm>
#include <cstring>

#include "device/common/look_up.h"
#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

template <class I>
Kernel GatherOf(const AxisLookUp& form, int64_t element) {
  return MakeKernel([form, bytes = form.inner * element](const KernelArgs& args) {
    const char* x = InPtr<char>(args);
    const I* indices = InPtr<I>(args, 1);
    char* y = OutPtr<char>(args);
    for (int64_t o = 0; o < form.outer; ++o, x += form.length * bytes) {
      for (int64_t i = 0; i < form.count; ++i, y += bytes) {
        const int64_t row = RowOf(indices[i], form.length);
        if (row < 0) {
          std::memset(y, 0, static_cast<size_t>(bytes));
        } else {
          std::memcpy(y, x + row * bytes, static_cast<size_t>(bytes));
        }
      }
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeGather(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const TensorType& x = In(graph, node, 0).type;
  const TensorType& indices = In(graph, node, 1).type;
  const AxisLookUp form =
      AxisLookUpOf(x.shape, node.attrs.Int("axis", 0), NumElements(indices.shape));
  const int64_t element = graph::SizeOf(x.dtype).count();
  return indices.dtype == DType::kI32 ? GatherOf<int32_t>(form, element)
                                      : GatherOf<int64_t>(form, element);
}

EBB_CLONES void AddRow(const float* x, float* y, int64_t n) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

template <class I>
Kernel GatherGradOf(const AxisLookUp& form) {
  return MakeKernel([form](const KernelArgs& args) {
    const float* dy = InPtr<float>(args);
    const I* indices = InPtr<I>(args, 1);
    float* dx = OutPtr<float>(args);
    std::fill_n(dx, form.outer * form.length * form.inner, 0.0f);
    for (int64_t o = 0; o < form.outer; ++o, dx += form.length * form.inner) {
      for (int64_t i = 0; i < form.count; ++i, dy += form.inner) {
        const int64_t row = RowOf(indices[i], form.length);
        if (row >= 0) AddRow(dy, dx + row * form.inner, form.inner);
      }
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeGatherGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const TensorType& indices = In(graph, node, 1).type;
  const AxisLookUp form = AxisLookUpOf(Out(graph, node).type.shape, node.attrs.Int("axis", 0),
                                       NumElements(indices.shape));
  return indices.dtype == DType::kI32 ? GatherGradOf<int32_t>(form) : GatherGradOf<int64_t>(form);
}

constexpr KernelRow kRows[] = {{"Gather", MakeGather}, {"GatherGrad", MakeGatherGrad}};

}  // namespace

absl::Span<const KernelRow> GatherKernels() { return kRows; }

}  // namespace ebb::device::cpu
