// Max and average pooling over 1 to 3 spatial dimensions, in both layouts. Gradients gather: every
// input position adds up what the windows that hold it give, in their order.
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "device/common/dispatch.h"
#include "device/common/pool_window.h"
#include "device/cuda/lines.h"
#include "device/math/divisor.h"
#include "device/math/sums.h"

namespace ebb::device::cuda {
namespace {

using Window = PoolWindow<int32_t>;
using Range = PoolRange<int32_t>;
using Dims = Window::Dims;

// Where the elements of a pooled tensor are, one for every thread.
struct Place {
  int64_t plane, channel;  // channels last: image and channel; else both in `plane`
  int32_t position;        // within the plane
};
struct Planes {
  EBB_INLINE Place At(int64_t i) const {
    if (!channels_last) {
      const int64_t plane = i / size;
      return {plane, 0, static_cast<int32_t>(i - plane * size)};
    }
    const int64_t t = i / channels;
    const int64_t plane = t / size;
    return {plane, i - t * channels, static_cast<int32_t>(t - plane * size)};
  }
  // Element 0 of the place's plane in a tensor whose planes are of `plane_size`.
  EBB_INLINE int64_t Base(const Place& place, int32_t plane_size) const {
    return place.plane * plane_size * step() + place.channel;
  }
  EBB_INLINE int64_t step() const { return channels_last ? int64_t{channels} : 1; }
  Divisor size;  // of the planes that threads are counted by
  Divisor channels;
  bool channels_last;
};

EBB_INLINE Dims Unravel(int32_t position, const Dims& dims) {
  const int32_t row = position / dims[2];
  return {row / dims[1], row % dims[1], position % dims[2]};
}
EBB_INLINE int32_t Ravel(const Dims& at, const Dims& dims) {
  return (at[0] * dims[1] + at[1]) * dims[2] + at[2];
}

template <class T>
struct MaxPool {
  EBB_INLINE void operator()(int64_t i) const {
    const Place place = planes.At(i);
    const T* from = x + planes.Base(place, w.in_size());
    float best = -std::numeric_limits<float>::infinity();
    int32_t arg = -1;
    // The first one among equals, and NaN wins.
    ForEachTap(w, RangeAt(w, Unravel(place.position, w.out)), [&](int32_t in, int32_t tap) {
      const float v = Read(from[in * planes.step()]);
      const bool better = v > best || v != v || arg < 0;
      best = better ? v : best;
      arg = better ? tap : arg;
    });
    y[i] = Stored<T>(best);
    argmax[i] = static_cast<uint8_t>(arg < 0 ? 0 : arg);
  }
  Window w;
  Planes planes;
  const T* x;
  T* y;
  uint8_t* argmax;
};

// f(output position, its offset in its plane, position in its window) for the windows that hold an
// input position, row-major.
template <class F>
EBB_INLINE void ForEachHolder(const Window& w, const Dims& at, F f) {
  Dims low{}, high{};
  for (int d = 0; d < 3; ++d) {
    const int32_t reach = at[d] + w.pad[d];
    const int32_t behind = reach - (w.kernel[d] - 1) * w.dilation[d];
    low[d] = behind <= 0 ? 0 : CeilDiv(behind, w.stride[d]);
    high[d] = std::min(reach / w.stride[d], w.out[d] - 1);
  }
  const auto tap = [&](int d, int32_t o) {
    const int32_t off = at[d] + w.pad[d] - o * w.stride[d];
    if (w.dilation[d] == 1) return off;
    return off % w.dilation[d] == 0 ? off / w.dilation[d] : -1;
  };
  for (int32_t od = low[0]; od <= high[0]; ++od) {
    const int32_t kd = tap(0, od);
    for (int32_t oh = low[1]; oh <= high[1]; ++oh) {
      const int32_t kh = tap(1, oh);
      for (int32_t ow = low[2]; ow <= high[2]; ++ow) {
        const int32_t kw = tap(2, ow);
        if (kd < 0 || kh < 0 || kw < 0) continue;
        const Dims o{od, oh, ow};
        f(o, Ravel(o, w.out), Ravel({kd, kh, kw}, w.kernel));
      }
    }
  }
}

template <class T>
struct MaxPoolGradient {
  EBB_INLINE void operator()(int64_t i) const {
    const Place place = planes.At(i);
    const int64_t base = planes.Base(place, w.out_size());
    float sum = 0;
    ForEachHolder(w, Unravel(place.position, w.in), [&](const Dims&, int32_t o, int32_t tap) {
      const int64_t at = base + o * planes.step();
      if (argmax[at] == static_cast<uint8_t>(tap)) sum += Read(dy[at]);
    });
    dx[i] = Stored<T>(sum);
  }
  Window w;
  Planes planes;
  const T* dy;
  const uint8_t* argmax;
  T* dx;
};

template <class T>
struct AveragePool {
  EBB_INLINE void operator()(int64_t i) const {
    const Place place = planes.At(i);
    const T* from = x + planes.Base(place, w.in_size());
    const Range range = RangeAt(w, Unravel(place.position, w.out));
    math::FloatSum sum{0, 0};
    ForEachTap(w, range, [&](int32_t in, int32_t) { sum.Add(Read(from[in * planes.step()])); });
    y[i] = Stored<T>(sum.Total() * PoolShare(range));
  }
  Window w;
  Planes planes;
  const T* x;
  T* y;
};

// Of large windows in planes, such as whole ones: a row of taps each.
template <class T>
struct AverageOfLarge {
  using Sum = math::FloatSum;
  static constexpr bool kEach = false;
  EBB_INLINE Sum Zero() const { return {0, 0}; }
  EBB_INLINE void Add(Sum& sum, int64_t row, int64_t i) const {
    const Place place = planes.At(row);
    const Dims o = Unravel(place.position, w.out);
    const Dims k = Unravel(static_cast<int32_t>(i), w.kernel);
    Dims at{};
    for (int d = 0; d < 3; ++d) {
      at[d] = o[d] * w.stride[d] - w.pad[d] + k[d] * w.dilation[d];
      if (at[d] < 0 || at[d] >= w.in[d]) return;
    }
    sum.Add(Read(x[planes.Base(place, w.in_size()) + Ravel(at, w.in)]));
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const { sum.Join(other); }
  EBB_INLINE void Done(int64_t row, const Sum& sum) const {
    const Range range = RangeAt(w, Unravel(planes.At(row).position, w.out));
    y[row] = Stored<T>(sum.Total() * PoolShare(range));
  }
  Window w;
  Planes planes;
  const T* x;
  T* y;
};

template <class T>
struct AveragePoolGradient {
  EBB_INLINE void operator()(int64_t i) const {
    const Place place = planes.At(i);
    const T* from = dy + planes.Base(place, w.out_size());
    float sum = 0;
    ForEachHolder(w, Unravel(place.position, w.in), [&](const Dims& o, int32_t at, int32_t) {
      sum += Read(from[at * planes.step()]) * PoolShare(RangeAt(w, o));
    });
    dx[i] = Stored<T>(sum);
  }
  Window w;
  Planes planes;
  const T* dy;
  T* dx;
};

// ---- Factories.

absl::StatusOr<Window> WindowOf(const Node& node, const Value& x, const Value& y) {
  for (const Value* value : {&x, &y}) {
    const Shape& shape = value->type.shape;
    const int64_t plane = NumElements(Shape(shape.begin() + 2, shape.end()));
    if (plane > std::numeric_limits<int32_t>::max() / 2) {
      return absl::UnimplementedError(
          absl::StrCat(node.op->name, " on cuda has no planes of ", plane, " positions"));
    }
  }
  return PoolWindowOf<int32_t>(node, x, y);
}
Planes PlanesOf(const Window& w, int32_t size) { return {size, w.channels, w.channels_last}; }

template <class T>
CudaKernel MaxPoolOf(const Window& w, int64_t n) {
  return MakeCudaKernel([w, n](const Launch& at, const KernelArgs& args) {
    return ForEach(at, n,
                   MaxPool<T>{w, PlanesOf(w, w.out_size()), InPtr<T>(args), OutPtr<T>(args, 0),
                              OutPtr<uint8_t>(args, 1)});
  });
}

template <class T>
CudaKernel MaxPoolGradOf(const Window& w, int64_t n) {
  return MakeCudaKernel([w, n](const Launch& at, const KernelArgs& args) {
    return ForEach(at, n,
                   MaxPoolGradient<T>{w, PlanesOf(w, w.in_size()), InPtr<T>(args, 0),
                                      InPtr<uint8_t>(args, 1), OutPtr<T>(args)});
  });
}

template <class T>
CudaKernel AveragePoolOf(const Window& w, int64_t n) {
  constexpr int32_t kLarge = 32;
  const bool large = w.kernel_size() >= kLarge && !w.channels_last;
  return MakeCudaKernel([w, n, large](const Launch& at, const KernelArgs& args) {
    const Planes planes = PlanesOf(w, w.out_size());
    if (large) {
      return Rows(at, n, w.kernel_size(),
                  AverageOfLarge<T>{w, planes, InPtr<T>(args), OutPtr<T>(args)});
    }
    return ForEach(at, n, AveragePool<T>{w, planes, InPtr<T>(args), OutPtr<T>(args)});
  });
}

template <class T>
CudaKernel AveragePoolGradOf(const Window& w, int64_t n) {
  return MakeCudaKernel([w, n](const Launch& at, const KernelArgs& args) {
    return ForEach(
        at, n,
        AveragePoolGradient<T>{w, PlanesOf(w, w.in_size()), InPtr<T>(args), OutPtr<T>(args)});
  });
}

enum class Pass { kForward, kBackward };

// make(T(), window, elements of the result) by what the planes are stored in.
template <Pass kPass, class Make>
absl::StatusOr<CudaKernel> ForPlanes(const Graph& graph, const Node& node, const Make& make) {
  const Value& in = In(graph, node);
  const Value& out = Out(graph, node);
  EBB_ASSIGN_OR_RETURN(const Window w,
                       kPass == Pass::kForward ? WindowOf(node, in, out) : WindowOf(node, out, in));
  return ForFloat(node, in.type.dtype,
                  [&](auto zero) { return make(zero, w, OutElements(graph, node)); });
}

absl::StatusOr<CudaKernel> MakeMaxPool(const Graph& graph, const Node& node) {
  return ForPlanes<Pass::kForward>(graph, node, [](auto zero, const Window& w, int64_t n) {
    return MaxPoolOf<decltype(zero)>(w, n);
  });
}
absl::StatusOr<CudaKernel> MakeMaxPoolGrad(const Graph& graph, const Node& node) {
  return ForPlanes<Pass::kBackward>(graph, node, [](auto zero, const Window& w, int64_t n) {
    return MaxPoolGradOf<decltype(zero)>(w, n);
  });
}
absl::StatusOr<CudaKernel> MakeAveragePool(const Graph& graph, const Node& node) {
  return ForPlanes<Pass::kForward>(graph, node, [](auto zero, const Window& w, int64_t n) {
    return AveragePoolOf<decltype(zero)>(w, n);
  });
}
absl::StatusOr<CudaKernel> MakeAveragePoolGrad(const Graph& graph, const Node& node) {
  return ForPlanes<Pass::kBackward>(graph, node, [](auto zero, const Window& w, int64_t n) {
    return AveragePoolGradOf<decltype(zero)>(w, n);
  });
}

constexpr CudaKernelRow kRows[] = {
    {"AveragePool", MakeAveragePool},
    {"AveragePoolGrad", MakeAveragePoolGrad},
    {"MaxPool", MakeMaxPool},
    {"MaxPoolGrad", MakeMaxPoolGrad},
};

}  // namespace

absl::Span<const CudaKernelRow> PoolKernels() { return kRows; }

}  // namespace ebb::device::cuda
