// Max and average pooling over 1 to 3 spatial dimensions, plain (a plane at a time) or channels
// last (a vector of channels at a time), and their gradients.
#include <algorithm>
#include <array>
#include <limits>

#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

using Dims = std::array<int64_t, 3>;  // depth, height, width; missing ones are 1

struct Window {
  int64_t batch = 0;
  int64_t channels = 0;
  Dims in{1, 1, 1}, out{1, 1, 1};
  Dims kernel{1, 1, 1}, stride{1, 1, 1}, pad{0, 0, 0}, dilation{1, 1, 1};
  Dims counted{0, 0, 0}, counted_end{0, 0, 0};  // average: padding that the divisor counts
  bool channels_last = false;

  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }
};

// The part of one window that lies inside the input.
struct Range {
  Dims first;           // input position of the window's first element, may be outside
  Dims begin, end;      // window positions inside, [begin, end)
  int64_t counted = 1;  // window positions that the divisor counts
};

EBB_INLINE int64_t CeilDiv(int64_t a, int64_t b) { return b == 1 ? a : (a + b - 1) / b; }

EBB_INLINE Range RangeAt(const Window& w, const Dims& at) {
  Range range;
  for (int d = 0; d < 3; ++d) {
    const int64_t first = at[d] * w.stride[d] - w.pad[d];
    const int64_t step = w.dilation[d];
    range.first[d] = first;
    range.begin[d] = first >= 0 ? 0 : CeilDiv(-first, step);
    range.end[d] = w.in[d] <= first ? 0 : std::min(CeilDiv(w.in[d] - first, step), w.kernel[d]);
    const int64_t low = std::max(first, -w.counted[d]);
    const int64_t high = std::min(first + w.kernel[d], w.in[d] + w.counted_end[d]);
    range.counted *= std::max<int64_t>(high - low, 0);
  }
  return range;
}

// f(range, output offset within a plane) for every output position, row-major.
template <class F>
EBB_INLINE void ForEachWindow(const Window& w, F f) {
  int64_t index = 0;
  for (int64_t d = 0; d < w.out[0]; ++d) {
    for (int64_t h = 0; h < w.out[1]; ++h) {
      for (int64_t x = 0; x < w.out[2]; ++x) f(RangeAt(w, {d, h, x}), index++);
    }
  }
}

// f(input offset within a plane, position in the window) for what lies inside, row-major.
template <class F>
EBB_INLINE void ForEachTap(const Window& w, const Range& r, F f) {
  for (int64_t kd = r.begin[0]; kd < r.end[0]; ++kd) {
    const int64_t plane = (r.first[0] + kd * w.dilation[0]) * w.in[1];
    for (int64_t kh = r.begin[1]; kh < r.end[1]; ++kh) {
      const int64_t row = (plane + r.first[1] + kh * w.dilation[1]) * w.in[2];
      const int64_t tap = (kd * w.kernel[1] + kh) * w.kernel[2];
      for (int64_t kw = r.begin[2]; kw < r.end[2]; ++kw) {
        f(row + r.first[2] + kw * w.dilation[2], tap + kw);
      }
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

float Share(const Range& range) {
  return 1.0f / static_cast<float>(std::max<int64_t>(range.counted, 1));
}

// ---- Factories.

absl::StatusOr<Window> WindowOf(const Node& node, const Value& x, const Value& y) {
  Window w;
  w.batch = x.type.shape[0];
  w.channels = x.type.shape[1];
  const size_t rank = x.type.shape.size() - 2;
  const auto fill = [&](absl::string_view name, size_t from, Dims& to) {
    const std::vector<int64_t> values = node.attrs.Ints(name);
    for (size_t d = 0; d < rank && from + d < values.size(); ++d) {
      to[3 - rank + d] = values[from + d];
    }
  };
  fill("kernel", 0, w.kernel);
  fill("strides", 0, w.stride);
  fill("pads", 0, w.pad);
  fill("dilations", 0, w.dilation);
  fill("counted_pads", 0, w.counted);
  fill("counted_pads", rank, w.counted_end);
  for (size_t d = 0; d < rank; ++d) {
    w.in[3 - rank + d] = x.type.shape[2 + d];
    w.out[3 - rank + d] = y.type.shape[2 + d];
  }
  if (x.layout != y.layout && !LayoutFree(x.type.shape) && !LayoutFree(y.type.shape)) {
    return absl::UnimplementedError("pooling on cpu keeps its operand's layout");
  }
  const Layout layout = LayoutFree(x.type.shape) ? y.layout : x.layout;
  w.channels_last = layout == Layout::kChannelsLast;
  return w;
}

absl::StatusOr<Kernel> MakeMaxPool(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_ASSIGN_OR_RETURN(const Window w, WindowOf(node, In(graph, node), Out(graph, node)));
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
  EBB_ASSIGN_OR_RETURN(const Window w, WindowOf(node, Out(graph, node), In(graph, node)));
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
  EBB_ASSIGN_OR_RETURN(const Window w, WindowOf(node, In(graph, node), Out(graph, node)));
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
            ScaleInPlace(to, Share(range), width);
          } else {
            double sum = 0;
            ForEachTap(w, range, [&](int64_t pos, int64_t) { sum += static_cast<double>(x[pos]); });
            *to = static_cast<float>(sum) * Share(range);
          }
        });
      }
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeAveragePoolGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_ASSIGN_OR_RETURN(const Window w, WindowOf(node, Out(graph, node), In(graph, node)));
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
          const float share = Share(range);
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
