// Gather (embedding look-ups) and its gradient, which adds rows in the order of the indices.
#include "base/status.h"
#include "device/common/dispatch.h"
#include "device/common/look_up.h"
#include "device/cuda/fill.h"
#include "device/cuda/segments.h"

namespace ebb::device::cuda {
namespace {

template <class I, class Unit>
struct GatherUnits {
  EBB_INLINE void operator()(int64_t at) const {
    const auto [slot, unit] = Divide(at, units);
    const auto [outer, i] = Divide(slot, count);
    const int64_t row = RowOf(indices[i], length);
    y[at] = row < 0 ? Unit{} : x[(outer * length + row) * units + unit];
  }
  Divisor units, count;
  int64_t length;
  const I* indices;
  const Unit* x;
  Unit* y;
};

template <class I, class Unit>
absl::Status RunGather(const Launch& at, const AxisLookUp& form, int64_t row_bytes,
                       const KernelArgs& args) {
  const int64_t units = row_bytes / static_cast<int64_t>(sizeof(Unit));
  if (units == 0 || form.count == 0) return absl::OkStatus();
  return ForEach(at, form.outer * form.count * units,
                 GatherUnits<I, Unit>{Divisor(units), Divisor(form.count), form.length,
                                      InPtr<I>(args, 1), InPtr<Unit>(args), OutPtr<Unit>(args)});
}

template <class I>
CudaKernel GatherOf(const AxisLookUp& form, int64_t element) {
  return MakeCudaKernel([form, element](const Launch& at, const KernelArgs& args) {
    const int64_t bytes = form.inner * element;
    if (bytes % 16 == 0 && internal::AlignedTo16(args.in[0], args.out[0])) {
      return RunGather<I, Pack<uint32_t, 4>>(at, form, bytes, args);
    }
    switch (element) {
      case 1:
        return RunGather<I, uint8_t>(at, form, bytes, args);
      case 2:
        return RunGather<I, uint16_t>(at, form, bytes, args);
      case 4:
        return RunGather<I, uint32_t>(at, form, bytes, args);
      default:
        return RunGather<I, uint64_t>(at, form, bytes, args);
    }
  });
}

absl::StatusOr<CudaKernel> MakeGather(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const TensorType& x = In(graph, node, 0).type;
  const TensorType& indices = In(graph, node, 1).type;
  const AxisLookUp form =
      AxisLookUpOf(x.shape, node.attrs.Int("axis", 0), NumElements(indices.shape));
  const int64_t element = graph::SizeOf(x.dtype).count();
  return indices.dtype == DType::kI32 ? GatherOf<int32_t>(form, element)
                                      : GatherOf<int64_t>(form, element);
}

template <class I>
struct RowOfIndex {
  EBB_INLINE int64_t operator()(int64_t i) const { return RowOf(indices[i], length); }
  const I* indices;
  int64_t length;
};

// Columns are the elements of a row in each of the outer parts.
template <class T>
struct GatheredRows {
  EBB_INLINE float Value(int64_t position, int64_t column) const {
    const auto [outer, i] = Divide(column, inner);
    return Read(dy[(outer * count + position) * inner + i]);
  }
  EBB_INLINE void Done(int64_t row, int64_t column, float sum) const {
    const auto [outer, i] = Divide(column, inner);
    dx[(outer * length + row) * inner + i] = Stored<T>(sum);
  }
  const T* dy;
  T* dx;
  int64_t count, length;
  Divisor inner;
};

template <class T, class I>
CudaKernel GatherGradOf(const AxisLookUp& form) {
  return MakeCudaKernel(
      [form](const Launch& at, const KernelArgs& args) {
        const int64_t columns = form.outer * form.inner;
        EBB_RETURN_IF_ERROR(Fill(at, OutPtr<T>(args), columns * form.length, Stored<T>(0.0f)));
        if (columns == 0) return absl::OkStatus();
        return SegmentSums(at, form.length, form.count, columns,
                           RowOfIndex<I>{InPtr<I>(args, 1), form.length},
                           GatheredRows<T>{InPtr<T>(args), OutPtr<T>(args), form.count, form.length,
                                           Divisor(form.inner)},
                           args.workspace);
      },
      SegmentSumsWorkspace(form.count, form.outer * form.inner));
}

absl::StatusOr<CudaKernel> MakeGatherGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const TensorType& indices = In(graph, node, 1).type;
  const AxisLookUp form = AxisLookUpOf(Out(graph, node).type.shape, node.attrs.Int("axis", 0),
                                       NumElements(indices.shape));
  EBB_RETURN_IF_ERROR(CheckSortable(node, form.length, form.count));
  return ForFloat(node, Out(graph, node).type.dtype, [&](auto zero) {
    using T = decltype(zero);
    return indices.dtype == DType::kI32 ? GatherGradOf<T, int32_t>(form)
                                        : GatherGradOf<T, int64_t>(form);
  });
}

constexpr CudaKernelRow kRows[] = {{"Gather", MakeGather}, {"GatherGrad", MakeGatherGrad}};

}  // namespace

absl::Span<const CudaKernelRow> GatherKernels() { return kRows; }

}  // namespace ebb::device::cuda
