// Max and average pooling over 1 to 3 spatial dimensions, plain (a plane at a time) or channels
// last (a vector of channels at a time), and their gradients.
#include <algorithm>
#include <array>
#include <limits>

#include "device/common/pool_window.h"
#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

using Window = PoolWindow<int64_t>;
using Range = PoolRange<int64_t>;
using Dims = std::array<int64_t, 3>;

// f(range, output offset within a plane) for every output position, row-major.
template <class F>
EBB_INLINE void ForEachWindow(const Window& w, F f) {
  int64_t index = 0;
  for (int64_t d = 0; d < w.out[0]; ++d) {
    for (int64_t h = 0; h < w.out[1]; ++h) {
      for (int64_t x = 0; x < w.out[2]; ++x) f(RangeAt(w, Dims{d, h, x}), index++);
    }
  }
}

// Where planes and channels are: element (n, c, position) = n * batch + c * channel + position *
// step.
struct Strides {
  int64_t batch, channel, step;
};
Strides StridesFor(const Window& w, int64_t size) {
  return w.channels_last ? Strides{size * w.channels, 1, w.channels}
                         : Strides{size * w.channels, size, 1};
}

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// The taps of one window: where they are in a plane, and which position of the window they are.
struct Taps {
  std::array<int32_t, 255> tap;
  std::array<int64_t, 255> at;
  int count = 0;
};

constexpr int64_t kStrip = 64;

// The largest tap of each channel; the first one among equals, and NaN wins.
EBB_CLONES void MaxOfTaps(const Taps& taps, const float* x, int64_t channels, float* y,
                          uint8_t* argmax) {
  float best[kStrip];
  int32_t arg[kStrip];
  const int32_t first = taps.count > 0 ? taps.tap[0] : 0;
  for (int64_t c0 = 0; c0 < channels; c0 += kStrip) {
    const int64_t width = channels - c0 < kStrip ? channels - c0 : kStrip;
    for (int64_t c = 0; c < width; ++c) {
      best[c] = kLowest;
      arg[c] = first;
    }
    for (int t = 0; t < taps.count; ++t) {
      const float* from = x + taps.at[t] * channels + c0;
      const int32_t tap = taps.tap[t];
      EBB_IVDEP
      for (int64_t c = 0; c < width; ++c) {
        const float v = from[c];
        const bool better = (v > best[c]) | (v != v);
        best[c] = better ? v : best[c];
        arg[c] = better ? tap : arg[c];
      }
    }
    for (int64_t c = 0; c < width; ++c) {
      y[c0 + c] = best[c];
      argmax[c0 + c] = static_cast<uint8_t>(arg[c]);
    }
  }
}

// dx at the chosen tap of each channel += dy.
EBB_CLONES void ScatterToTaps(const Taps& taps, const float* dy, const uint8_t* argmax, float* dx,
                              int64_t channels) {
  for (int t = 0; t < taps.count; ++t) {
    float* to = dx + taps.at[t] * channels;
    const uint8_t tap = static_cast<uint8_t>(taps.tap[t]);
    EBB_IVDEP
    for (int64_t c = 0; c < channels; ++c) to[c] += argmax[c] == tap ? dy[c] : 0.0f;
  }
}

void Collect(const Window& w, const Range& range, Taps& taps) {
  taps.count = 0;
  ForEachTap(w, range, [&](int64_t at, int64_t tap) {
    taps.at[static_cast<size_t>(taps.count)] = at;
    taps.tap[static_cast<size_t>(taps.count++)] = static_cast<int32_t>(tap);
  });
}

void MaxPoolChannelsLast(const Window& w, const float* x, float* y, uint8_t* argmax) {
  Taps taps;
  ForEachWindow(w, [&](const Range& range, int64_t out) {
    Collect(w, range, taps);
    MaxOfTaps(taps, x, w.channels, y + out * w.channels, argmax + out * w.channels);
  });
}

void MaxPoolPlane(const Window& w, const float* x, float* y, uint8_t* argmax) {
  ForEachWindow(w, [&](const Range& range, int64_t out) {
    float best = kLowest;
    int64_t arg = -1;
    ForEachTap(w, range, [&](int64_t in, int64_t tap) {
      const float v = x[in];
      const bool better = v > best || v != v || arg < 0;
      best = better ? v : best;
      arg = better ? tap : arg;
    });
    y[out] = best;
    argmax[out] = static_cast<uint8_t>(std::max<int64_t>(arg, 0));
  });
}

EBB_CLONES void AddScaled(const float* x, float* y, float scale, int64_t n) {
  EBB_IVDEP
  for (int64_t c = 0; c < n; ++c) y[c] += x[c] * scale;
}

EBB_CLONES void ScaleInPlace(float* y, float scale, int64_t n) {
  EBB_IVDEP
  for (int64_t c = 0; c < n; ++c) y[c] *= scale;
}

// ---- Factories.

absl::StatusOr<Kernel> MakeMaxPool(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_ASSIGN_OR_RETURN(const Window w,
                       PoolWindowOf<int64_t>(node, In(graph, node), Out(graph, node)));
  return MakeKernel([w](const KernelArgs& args) {
    const float* x = InPtr<float>(args);
    float* y = OutPtr<float>(args);
    uint8_t* argmax = OutPtr<uint8_t>(args, 1);
    const int64_t planes = w.channels_last ? w.batch : w.batch * w.channels;
    const int64_t in_plane = w.in_size() * (w.channels_last ? w.channels : 1);
    const int64_t out_plane = w.out_size() * (w.channels_last ? w.channels : 1);
    const auto pool = w.channels_last ? MaxPoolChannelsLast : MaxPoolPlane;
    for (int64_t p = 0; p < planes; ++p) {
      pool(w, x + p * in_plane, y + p * out_plane, argmax + p * out_plane);
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeMaxPoolGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_ASSIGN_OR_RETURN(const Window w,
                       PoolWindowOf<int64_t>(node, Out(graph, node), In(graph, node)));
  return MakeKernel([w](const KernelArgs& args) {
    const Strides in = StridesFor(w, w.in_size());
    const Strides out = StridesFor(w, w.out_size());
    std::fill_n(OutPtr<float>(args), w.batch * in.batch, 0.0f);
    const int64_t planes = w.channels_last ? 1 : w.channels;
    for (int64_t n = 0; n < w.batch; ++n) {
      for (int64_t p = 0; p < planes; ++p) {
        float* dx = OutPtr<float>(args) + n * in.batch + p * in.channel;
        const float* dy = InPtr<float>(args) + n * out.batch + p * out.channel;
        const uint8_t* argmax = InPtr<uint8_t>(args, 1) + n * out.batch + p * out.channel;
        ForEachWindow(w, [&](const Range& range, int64_t at) {
          if (w.channels_last) {
            Taps taps;
            Collect(w, range, taps);
            ScatterToTaps(taps, dy + at * w.channels, argmax + at * w.channels, dx, w.channels);
            return;
          }
          ForEachTap(w, range, [&](int64_t pos, int64_t tap) {
            if (argmax[at] == tap) dx[pos] += dy[at];
          });
        });
      }
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeAveragePool(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_ASSIGN_OR_RETURN(const Window w,
                       PoolWindowOf<int64_t>(node, In(graph, node), Out(graph, node)));
  return MakeKernel([w](const KernelArgs& args) {
    const Strides in = StridesFor(w, w.in_size());
    const Strides out = StridesFor(w, w.out_size());
    const int64_t planes = w.channels_last ? 1 : w.channels;
    for (int64_t n = 0; n < w.batch; ++n) {
      for (int64_t p = 0; p < planes; ++p) {
        const float* x = InPtr<float>(args) + n * in.batch + p * in.channel;
        float* y = OutPtr<float>(args) + n * out.batch + p * out.channel;
        ForEachWindow(w, [&](const Range& range, int64_t at) {
          const int64_t width = w.channels_last ? w.channels : 1;
          float* to = y + at * width;
          std::fill_n(to, width, 0.0f);
          if (w.channels_last) {
            ForEachTap(w, range,
                       [&](int64_t pos, int64_t) { AddScaled(x + pos * width, to, 1.0f, width); });
            ScaleInPlace(to, PoolShare(range), width);
          } else {
            double sum = 0;
            ForEachTap(w, range, [&](int64_t pos, int64_t) { sum += static_cast<double>(x[pos]); });
            *to = static_cast<float>(sum) * PoolShare(range);
          }
        });
      }
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeAveragePoolGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_ASSIGN_OR_RETURN(const Window w,
                       PoolWindowOf<int64_t>(node, Out(graph, node), In(graph, node)));
  return MakeKernel([w](const KernelArgs& args) {
    const Strides in = StridesFor(w, w.in_size());
    const Strides out = StridesFor(w, w.out_size());
    std::fill_n(OutPtr<float>(args), w.batch * in.batch, 0.0f);
    const int64_t planes = w.channels_last ? 1 : w.channels;
    const int64_t width = w.channels_last ? w.channels : 1;
    for (int64_t n = 0; n < w.batch; ++n) {
      for (int64_t p = 0; p < planes; ++p) {
        float* dx = OutPtr<float>(args) + n * in.batch + p * in.channel;
        const float* dy = InPtr<float>(args) + n * out.batch + p * out.channel;
        ForEachWindow(w, [&](const Range& range, int64_t at) {
          const float share = PoolShare(range);
          ForEachTap(w, range, [&](int64_t pos, int64_t) {
            if (width == 1) {
              dx[pos] += dy[at] * share;
            } else {
              AddScaled(dy + at * width, dx + pos * width, share, width);
            }
          });
        });
      }
    }
    return absl::OkStatus();
  });
}

constexpr KernelRow kRows[] = {
    {"AveragePool", MakeAveragePool},
    {"AveragePoolGrad", MakeAveragePoolGrad},
    {"MaxPool", MakeMaxPool},
    {"MaxPoolGrad", MakeMaxPoolGrad},
};

}  // namespace

absl::Span<const KernelRow> PoolKernels() { return kRows; }

}  // namespace ebb::device::cpu
