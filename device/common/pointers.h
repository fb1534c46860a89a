// Where indices point into a tensor: plans of GatherElements, GatherND, their gradients and the two
// scatters. Indices below 0 count from the end; what is out of range points nowhere. Plain data.
#pragma once

#include <array>
#include <type_traits>

#include "device/common/broadcast.h"
#include "device/common/operands.h"
#include "device/math/scalar.h"

namespace ebb::device {

// Of the elements that an index of its own points to: the dimensions of the indices, and x's
// strides along them, 0 along the axis that is indexed.
struct ElementPointers {
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
struct SlicePointers {
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

ElementPointers ElementPointersOf(const Node& node, const Shape& x, const Shape& indices);
SlicePointers SlicePointersOf(const Node& node, const Shape& x, const Shape& indices);

// Calls f(plan, I()) with the plan of the node's kind and the type of its indices.
template <class F>
auto WithPointers(const Graph& graph, const Node& node, const Shape& x, F f) {
  const TensorType& indices = In(graph, node, 1).type;
  const bool narrow = indices.dtype == DType::kI32;
  if (node.attrs.Has("axis")) {
    const ElementPointers plan = ElementPointersOf(node, x, indices.shape);
    return narrow ? f(plan, int32_t()) : f(plan, int64_t());
  }
  const SlicePointers plan = SlicePointersOf(node, x, indices.shape);
  return narrow ? f(plan, int32_t()) : f(plan, int64_t());
}

// What a scatter does with an update.
enum class ScatterHow { kReplace, kAdd, kMul, kMax, kMin };

ScatterHow ScatterHowOf(const Node& node);

// Integers wrap around.
template <class T>
EBB_INLINE T ScatterCombined(ScatterHow how, T a, T b) {
  using U = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  switch (how) {
    case ScatterHow::kReplace:
      return b;
    case ScatterHow::kAdd:
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    case ScatterHow::kMul:
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    case ScatterHow::kMax:
      return a >= b || a != a ? a : b;
    case ScatterHow::kMin:
      break;
  }
  return b >= a || a != a ? a : b;
}

}  // namespace ebb::device
