// Windows of max and average pooling over 1 to 3 spatial dimensions. `I` is what positions within a
// plane are counted in: GPUs are slow at 64 bits.
#pragma once

#include <algorithm>
#include <array>

#include "absl/status/statusor.h"
#include "device/common/operands.h"
#include "device/math/scalar.h"

namespace ebb::device {

// Dimensions are depth, height, width; missing ones are 1.
template <class I>
struct PoolWindow {
  using Dims = std::array<I, 3>;

  int64_t batch = 0;
  int64_t channels = 0;
  Dims in{1, 1, 1}, out{1, 1, 1};
  Dims kernel{1, 1, 1}, stride{1, 1, 1}, pad{0, 0, 0}, dilation{1, 1, 1};
  Dims counted{0, 0, 0}, counted_end{0, 0, 0};  // average: padding that the divisor counts
  bool channels_last = false;

  EBB_INLINE I in_size() const { return in[0] * in[1] * in[2]; }
  EBB_INLINE I out_size() const { return out[0] * out[1] * out[2]; }
  EBB_INLINE I kernel_size() const { return kernel[0] * kernel[1] * kernel[2]; }
};

// The part of one window that lies inside the input.
template <class I>
struct PoolRange {
  std::array<I, 3> first;       // input position of the window's first element, may be outside
  std::array<I, 3> begin, end;  // window positions inside, [begin, end)
  I counted = 1;                // window positions that the divisor counts
};

template <class I>
EBB_INLINE I CeilDiv(I a, I b) {
  return b == 1 ? a : (a + b - 1) / b;
}

// Of the output position `at`.
template <class I>
EBB_INLINE PoolRange<I> RangeAt(const PoolWindow<I>& w, const std::array<I, 3>& at) {
  PoolRange<I> range;
  for (int d = 0; d < 3; ++d) {
    const I first = at[d] * w.stride[d] - w.pad[d];
    const I step = w.dilation[d];
    range.first[d] = first;
    range.begin[d] = first >= 0 ? 0 : CeilDiv(-first, step);
    range.end[d] = w.in[d] <= first ? 0 : std::min(CeilDiv(w.in[d] - first, step), w.kernel[d]);
    const I low = std::max(first, -w.counted[d]);
    const I high = std::min(first + w.kernel[d], w.in[d] + w.counted_end[d]);
    range.counted *= std::max<I>(high - low, 0);
  }
  return range;
}

// f(input offset within a plane, position in the window) for what lies inside, row-major.
template <class I, class F>
EBB_INLINE void ForEachTap(const PoolWindow<I>& w, const PoolRange<I>& r, F f) {
  for (I kd = r.begin[0]; kd < r.end[0]; ++kd) {
    const I plane = (r.first[0] + kd * w.dilation[0]) * w.in[1];
    for (I kh = r.begin[1]; kh < r.end[1]; ++kh) {
      const I row = (plane + r.first[1] + kh * w.dilation[1]) * w.in[2];
      const I tap = (kd * w.kernel[1] + kh) * w.kernel[2];
      for (I kw = r.begin[2]; kw < r.end[2]; ++kw) {
        f(row + r.first[2] + kw * w.dilation[2], tap + kw);
      }
    }
  }
}

// What an average multiplies the sum of a window with.
template <class I>
EBB_INLINE float PoolShare(const PoolRange<I>& range) {
  return 1.0f / static_cast<float>(std::max<I>(range.counted, 1));
}

// Of a node that pools x to y. Unimplemented where they are of different layouts.
template <class I>
absl::StatusOr<PoolWindow<I>> PoolWindowOf(const Node& node, const Value& x, const Value& y) {
  PoolWindow<I> w;
  w.batch = x.type.shape[0];
  w.channels = x.type.shape[1];
  const size_t rank = x.type.shape.size() - 2;
  const auto fill = [&](absl::string_view name, size_t from, std::array<I, 3>& to) {
    const std::vector<int64_t> values = node.attrs.Ints(name);
    for (size_t d = 0; d < rank && from + d < values.size(); ++d) {
      to[3 - rank + d] = static_cast<I>(values[from + d]);
    }
  };
  fill("kernel", 0, w.kernel);
  fill("strides", 0, w.stride);
  fill("pads", 0, w.pad);
  fill("dilations", 0, w.dilation);
  fill("counted_pads", 0, w.counted);
  fill("counted_pads", rank, w.counted_end);
  for (size_t d = 0; d < rank; ++d) {
    w.in[3 - rank + d] = static_cast<I>(x.type.shape[2 + d]);
    w.out[3 - rank + d] = static_cast<I>(y.type.shape[2 + d]);
  }
  if (x.layout != y.layout && !LayoutFree(x.type.shape) && !LayoutFree(y.type.shape)) {
    return absl::UnimplementedError("pooling on this device keeps its operand's layout");
  }
  const Layout layout = LayoutFree(x.type.shape) ? y.layout : x.layout;
  w.channels_last = layout == Layout::kChannelsLast;
  return w;
}

}  // namespace ebb::device
