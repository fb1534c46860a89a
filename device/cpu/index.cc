// Elements and slices by index: GatherElements, GatherND, their gradients, which add in the order
// of the indices, and the two scatters, in which the last of several updates of one place stands.
// Indices below 0 count from the end; what is out of range is read as zero and not written.
#include <algorithm>
#include <cstring>
#include <string>

#include "device/common/broadcast.h"
#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

// Of the elements that an index of its own points to: the dimensions of the indices, and x's
// strides along them, 0 along the axis that is indexed.
struct Elements {
  int rank = 0;
  std::array<int64_t, kMaxRank> dim{};
  std::array<int64_t, kMaxRank> stride{};
  int64_t count = 0;
  int64_t length = 0;  // of x's axis, and its stride
  int64_t step = 0;

  // f(j, offset in x, or -1) for all indices in order.
  template <class I, class F>
  void ForEach(const I* indices, F f) const {
    std::array<int64_t, kMaxRank> at{};
    int64_t base = 0;
    for (int64_t j = 0; j < count; ++j) {
      const int64_t index = indices[j] < 0 ? indices[j] + length : indices[j];
      f(j, index < 0 || index >= length ? int64_t{-1} : base + index * step);
      for (int d = rank - 1; d >= 0; --d) {
        base += stride[d];
        if (++at[d] < dim[d]) break;
        base -= stride[d] * dim[d];
        at[d] = 0;
      }
    }
  }
  int64_t slice() const { return 1; }
};

// Of the slices that tuples of indices point to.
struct Slices {
  int depth = 1;  // indices a tuple
  std::array<int64_t, kMaxRank> length{};
  std::array<int64_t, kMaxRank> stride{};
  int64_t batches = 1;
  int64_t per_batch = 0;
  int64_t batch_stride = 0;
  int64_t size = 1;

  template <class I, class F>
  void ForEach(const I* indices, F f) const {
    for (int64_t b = 0, j = 0; b < batches; ++b) {
      for (int64_t i = 0; i < per_batch; ++i, ++j) {
        int64_t offset = b * batch_stride;
        bool inside = true;
        for (int k = 0; k < depth; ++k, ++indices) {
          const int64_t index = *indices < 0 ? *indices + length[k] : *indices;
          inside &= index >= 0 && index < length[k];
          offset += index * stride[k];
        }
        f(j, inside ? offset : int64_t{-1});
      }
    }
  }
  int64_t slice() const { return size; }
};

Elements ElementsOf(const Node& node, const Shape& x, const Shape& indices) {
  const auto axis = static_cast<size_t>(node.attrs.Int("axis", 0));
  const Shape strides = graph::StridesOf(x);
  Elements plan;
  plan.rank = static_cast<int>(x.size());
  plan.count = NumElements(indices);
  plan.length = x[axis];
  plan.step = strides[axis];
  for (size_t d = 0; d < x.size(); ++d) {
    plan.dim[d] = indices[d];
    plan.stride[d] = d == axis ? 0 : strides[d];
  }
  return plan;
}

Slices SlicesOf(const Node& node, const Shape& x, const Shape& indices) {
  const auto batch = static_cast<size_t>(node.attrs.Int("batch_dims", 0));
  const Shape strides = graph::StridesOf(x);
  Slices plan;
  plan.depth = static_cast<int>(indices.back());
  for (size_t d = 0; d < batch; ++d) plan.batches *= x[d];
  const int64_t tuples = NumElements(indices) / plan.depth;
  plan.per_batch = plan.batches == 0 ? 0 : tuples / plan.batches;
  plan.batch_stride = plan.batches == 0 ? 0 : NumElements(x) / plan.batches;
  for (int k = 0; k < plan.depth; ++k) {
    plan.length[k] = x[batch + static_cast<size_t>(k)];
    plan.stride[k] = strides[batch + static_cast<size_t>(k)];
  }
  for (size_t d = batch + static_cast<size_t>(plan.depth); d < x.size(); ++d) plan.size *= x[d];
  return plan;
}

// Calls f(plan, I()) with the plan of the node's kind and the type of its indices.
template <class F>
Kernel WithPlan(const Graph& graph, const Node& node, const Shape& x, F f) {
  const TensorType& indices = In(graph, node, 1).type;
  const bool narrow = indices.dtype == DType::kI32;
  if (node.attrs.Has("axis")) {
    const Elements plan = ElementsOf(node, x, indices.shape);
    return narrow ? f(plan, int32_t()) : f(plan, int64_t());
  }
  const Slices plan = SlicesOf(node, x, indices.shape);
  return narrow ? f(plan, int32_t()) : f(plan, int64_t());
}

template <class T, class Plan, class I>
Kernel GatherOf(const Plan& plan, I) {
  return MakeKernel([plan](const KernelArgs& args) {
    const T* x = InPtr<T>(args);
    T* y = OutPtr<T>(args);
    const int64_t n = plan.slice();
    plan.ForEach(InPtr<I>(args, 1), [&](int64_t j, int64_t offset) {
      if (n == 1) {
        y[j] = offset < 0 ? T(0) : x[offset];
      } else if (offset < 0) {
        std::fill_n(y + j * n, n, T(0));
      } else {
        std::copy_n(x + offset, n, y + j * n);
      }
    });
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeGather(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const TensorType& x = In(graph, node, 0).type;
  return WithPlan(graph, node, x.shape, [&](const auto& plan, auto index) {
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

EBB_CLONES void AddRow(const float* x, float* y, int64_t n) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

absl::StatusOr<Kernel> MakeGatherGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const int64_t elements = OutElements(graph, node);
  return WithPlan(graph, node, Out(graph, node).type.shape, [&](const auto& plan, auto index) {
    return MakeKernel([plan, elements](const KernelArgs& args) {
      const float* dy = InPtr<float>(args);
      float* dx = OutPtr<float>(args);
      std::fill_n(dx, elements, 0.0f);
      const int64_t n = plan.slice();
      plan.ForEach(InPtr<decltype(index)>(args, 1), [&](int64_t j, int64_t offset) {
        if (offset >= 0) AddRow(dy + j * n, dx + offset, n);
      });
      return absl::OkStatus();
    });
  });
}

enum class How { kReplace, kAdd, kMul, kMax, kMin };

How HowOf(const Node& node) {
  const std::string reduction = node.attrs.Str("reduction", "none");
  if (reduction == "add") return How::kAdd;
  if (reduction == "mul") return How::kMul;
  if (reduction == "max") return How::kMax;
  return reduction == "min" ? How::kMin : How::kReplace;
}

// Integers wrap around.
template <class T>
T Combined(How how, T a, T b) {
  using U = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  switch (how) {
    case How::kReplace:
      return b;
    case How::kAdd:
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    case How::kMul:
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    case How::kMax:
      return a >= b || a != a ? a : b;
    case How::kMin:
      break;
  }
  return b >= a || a != a ? a : b;
}

template <class T, class Plan, class I>
Kernel ScatterOf(const Plan& plan, I, How how, int64_t elements) {
  return MakeKernel([plan, how, elements](const KernelArgs& args) {
    T* y = OutPtr<T>(args);
    if (y != InPtr<T>(args)) std::copy_n(InPtr<T>(args), elements, y);
    const T* updates = InPtr<T>(args, 2);
    const int64_t n = plan.slice();
    plan.ForEach(InPtr<I>(args, 1), [&](int64_t j, int64_t offset) {
      if (offset < 0) return;
      for (int64_t i = 0; i < n; ++i) {
        y[offset + i] = Combined(how, y[offset + i], updates[j * n + i]);
      }
    });
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeScatter(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const TensorType& x = In(graph, node, 0).type;
  const How how = HowOf(node);
  if (how != How::kReplace && x.dtype == DType::kF64) return BadType(node, x.dtype);
  const int64_t elements = NumElements(x.shape);
  return WithPlan(graph, node, x.shape, [&](const auto& plan, auto index) {
    switch (x.dtype) {
      case DType::kF32:
        return ScatterOf<float>(plan, index, how, elements);
      case DType::kI32:
        return ScatterOf<int32_t>(plan, index, how, elements);
      case DType::kU8:
      case DType::kBool:
        return ScatterOf<uint8_t>(plan, index, how, elements);
      default:
        return ScatterOf<int64_t>(plan, index, how, elements);
    }
  });
}

constexpr KernelRow kRows[] = {
    {"GatherElements", MakeGather}, {"GatherElementsGrad", MakeGatherGrad},
    {"GatherND", MakeGather},       {"GatherNDGrad", MakeGatherGrad},
    {"ScatterND", MakeScatter},     {"ScatterElements", MakeScatter},
};

}  // namespace

absl::Span<const KernelRow> IndexKernels() { return kRows; }

}  // namespace ebb::device::cpu
