// Elements and slices by index: GatherElements, GatherND, their gradients, which add in the order
// of the indices, and the two scatters, in which the last of several updates of one place stands.
// Indices below 0 count from the end; what is out of range is read as zero and not written.
#include "base/status.h"
#include "device/common/dispatch.h"
#include "device/common/pointers.h"
#include "device/cuda/fill.h"
#include "device/cuda/segments.h"

namespace ebb::device::cuda {
namespace {

// Where pointer j of a plan points: the offset of its slice in x, -1 for nowhere.
template <class I>
struct ElementOffset {
  ElementOffset(const ElementPointers& plan, const void* list)
      : indices(static_cast<const I*>(list)), length(plan.length), step(plan.step) {
    for (int d = plan.rank - 1; d >= 0; --d) others.Append(plan.dim[d], {plan.stride[d]});
  }
  EBB_INLINE int64_t operator()(int64_t j) const {
    const int64_t index = indices[j] < 0 ? indices[j] + length : indices[j];
    return index < 0 || index >= length ? -1 : others.Of(j).at[0] + index * step;
  }
  const I* indices;
  Strides<1> others;
  int64_t length, step;
};

template <class I>
struct SliceOffset {
  SliceOffset(const SlicePointers& p, const void* list)
      : indices(static_cast<const I*>(list)),
        plan(p),
        per_batch(std::max<int64_t>(p.per_batch, 1)) {}
  EBB_INLINE int64_t operator()(int64_t j) const {
    int64_t offset = j / per_batch * plan.batch_stride;
    for (int k = 0; k < plan.depth; ++k) {
      const int64_t given = indices[j * plan.depth + k];
      const int64_t index = given < 0 ? given + plan.length[k] : given;
      if (index < 0 || index >= plan.length[k]) return -1;
      offset += index * plan.stride[k];
    }
    return offset;
  }
  const I* indices;
  SlicePointers plan;
  Divisor per_batch;
};

template <class I>
ElementOffset<I> OffsetOf(const ElementPointers& plan, I, const KernelArgs& args) {
  return {plan, args.in[1]};
}
template <class I>
SliceOffset<I> OffsetOf(const SlicePointers& plan, I, const KernelArgs& args) {
  return {plan, args.in[1]};
}

int64_t CountOf(const ElementPointers& plan) { return plan.count; }
int64_t CountOf(const SlicePointers& plan) { return plan.batches * plan.per_batch; }

// The slice that pointer j points to, as a row; slices start at multiples of their size.
template <class Offset>
struct SliceRow {
  EBB_INLINE int64_t operator()(int64_t j) const {
    const int64_t at = offset(j);
    return at < 0 ? -1 : at / size;
  }
  Offset offset;
  Divisor size;
};

template <class Offset, class T>
struct GatherSlices {
  EBB_INLINE void operator()(int64_t at) const {
    const auto [j, i] = Divide(at, size);
    const int64_t from = offset(j);
    y[at] = from < 0 ? T(0) : x[from + i];
  }
  Offset offset;
  Divisor size;
  const T* x;
  T* y;
};

template <class T, class Plan, class I>
CudaKernel GatherOf(const Plan& plan, I index) {
  return MakeCudaKernel([plan, index](const Launch& at, const KernelArgs& args) {
    const int64_t n = CountOf(plan) * plan.slice();
    if (n == 0) return absl::OkStatus();
    const auto offset = OffsetOf(plan, index, args);
    return ForEach(at, n,
                   GatherSlices<decltype(offset), T>{offset, Divisor(plan.slice()), InPtr<T>(args),
                                                     OutPtr<T>(args)});
  });
}

absl::StatusOr<CudaKernel> MakeGather(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const TensorType& x = In(graph, node, 0).type;
  return WithPointers(graph, node, x.shape, [&](const auto& plan, auto index) {
    switch (graph::SizeOf(x.dtype).count()) {
      case 1:
        return GatherOf<uint8_t>(plan, index);
      case 4:
        return GatherOf<uint32_t>(plan, index);
      default:
        return GatherOf<uint64_t>(plan, index);
    }
  });
}

struct AddedSlices {
  EBB_INLINE float Value(int64_t j, int64_t i) const { return dy[j * size + i]; }
  EBB_INLINE void Done(int64_t row, int64_t i, float sum) const { dx[row * size + i] = sum; }
  const float* dy;
  float* dx;
  int64_t size;
};

template <class Plan, class I>
CudaKernel GatherGradOf(const Plan& plan, I index, int64_t elements) {
  return MakeCudaKernel(
      [=](const Launch& at, const KernelArgs& args) {
        EBB_RETURN_IF_ERROR(Fill(at, OutPtr<float>(args), elements, 0.0f));
        const int64_t size = plan.slice();
        if (elements == 0 || CountOf(plan) == 0) return absl::OkStatus();
        const auto offset = OffsetOf(plan, index, args);
        return SegmentSums(at, elements / size, CountOf(plan), size,
                           SliceRow<std::decay_t<decltype(offset)>>{offset, Divisor(size)},
                           AddedSlices{InPtr<float>(args), OutPtr<float>(args), size},
                           args.workspace);
      },
      SegmentSumsWorkspace(CountOf(plan), plan.slice()));
}

absl::StatusOr<CudaKernel> MakeGatherGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const int64_t elements = OutElements(graph, node);
  EBB_RETURN_IF_ERROR(CheckSortable(node, elements, NumElements(In(graph, node, 1).type.shape)));
  return WithPointers(graph, node, Out(graph, node).type.shape, [&](const auto& plan, auto index) {
    return GatherGradOf(plan, index, elements);
  });
}

// A thread an element of a slice that is updated: it takes the updates one after the other.
template <class T>
struct Update {
  EBB_INLINE void operator()(int64_t at) const {
    auto [position, i] = Divide(at, size);
    const int64_t row = keys[position].row();
    if (row == rows || (position > 0 && keys[position - 1].row() == row)) return;
    T* const place = y + row * size + i;
    T value = *place;
    for (; position < count && keys[position].row() == row; ++position) {
      value = ScatterCombined(how, value, updates[keys[position].position() * size + i]);
    }
    *place = value;
  }
  const SortKey* keys;
  const T* updates;
  T* y;
  int64_t rows, count;
  Divisor size;
  ScatterHow how;
};

template <class T, class Plan, class I>
CudaKernel ScatterOf(const Plan& plan, I index, ScatterHow how, int64_t elements) {
  const int64_t count = CountOf(plan);
  return MakeCudaKernel(
      [=](const Launch& at, const KernelArgs& args) {
        EBB_RETURN_IF_ERROR(
            Copy(at, args.out[0], args.in[0], elements * static_cast<int64_t>(sizeof(T))));
        const int64_t size = plan.slice();
        if (count == 0 || elements == 0) return absl::OkStatus();
        const auto offset = OffsetOf(plan, index, args);
        const int64_t rows = elements / size;
        const SortKey* keys = nullptr;
        EBB_RETURN_IF_ERROR(SortByRow(
            at, rows, count, SliceRow<std::decay_t<decltype(offset)>>{offset, Divisor(size)},
            args.workspace, &keys));
        return ForEach(
            at, count * size,
            Update<T>{keys, InPtr<T>(args, 2), OutPtr<T>(args), rows, count, Divisor(size), how});
      },
      SortWorkspace(count));
}

absl::StatusOr<CudaKernel> MakeScatter(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const TensorType& x = In(graph, node, 0).type;
  const ScatterHow how = ScatterHowOf(node);
  if (how != ScatterHow::kReplace && x.dtype == DType::kF64) return BadType(node, x.dtype);
  const int64_t elements = NumElements(x.shape);
  EBB_RETURN_IF_ERROR(CheckSortable(node, elements, NumElements(In(graph, node, 1).type.shape)));
  return WithPointers(graph, node, x.shape, [&](const auto& plan, auto index) {
    // f64 is only replaced, which is a move of eight bytes.
    return ForNumberOrByte(node, x.dtype == DType::kF64 ? DType::kI64 : x.dtype, [&](auto zero) {
      return ScatterOf<decltype(zero)>(plan, index, how, elements);
    });
  });
}

constexpr CudaKernelRow kRows[] = {
    {"GatherElements", MakeGather}, {"GatherElementsGrad", MakeGatherGrad},
    {"GatherND", MakeGather},       {"GatherNDGrad", MakeGatherGrad},
    {"ScatterND", MakeScatter},     {"ScatterElements", MakeScatter},
};

}  // namespace

absl::Span<const CudaKernelRow> IndexKernels() { return kRows; }

}  // namespace ebb::device::cuda
