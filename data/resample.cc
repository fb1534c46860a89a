#include "data/resample.h"

#include <algorithm>
#include <cmath>

namespace ebb::data {
namespace {

// Weights are fixed-point numbers of so many bits behind the point.
constexpr int kPrecision = 32 - 8 - 2;

// What of the input makes one pixel of the output along an axis.
struct Taps {
  int64_t first = 0;
  std::vector<int32_t> weights;
};

std::vector<Taps> TapsOf(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double support = std::max(scale, 1.0);
  std::vector<Taps> taps(static_cast<size_t>(to));
  std::vector<double> exact;
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const auto end = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), from);
    exact.clear();
    double sum = 0;
    for (int64_t x = first; x < end; ++x) {
      const double at = std::abs((static_cast<double>(x) - center + 0.5) * (1.0 / support));
      exact.push_back(at < 1.0 ? 1.0 - at : 0.0);
      sum += exact.back();
    }
    Taps& tap = taps[static_cast<size_t>(i)];
    tap.first = first;
    for (const double weight : exact) {
      const double share = sum != 0.0 ? weight / sum : weight;
      tap.weights.push_back(static_cast<int32_t>(0.5 + share * (1 << kPrecision)));
    }
  }
  return taps;
}

uint8_t Rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp<int32_t>(sum >> kPrecision, 0, 255));
}

// Output pixel i of a line is at to[i * to_stride].
void ResampleLine(const std::vector<Taps>& taps, const uint8_t* from, int64_t from_stride,
                  uint8_t* to, int64_t to_stride) {
  for (const Taps& tap : taps) {
    int32_t sum = 1 << (kPrecision - 1);
    const uint8_t* at = from + tap.first * from_stride;
    for (const int32_t weight : tap.weights) {
      sum += *at * weight;
      at += from_stride;
    }
    *to = Rounded(sum);
    to += to_stride;
  }
}

Planes Empty(int64_t channels, ImageSize size) {
  return {channels, size,
          std::vector<uint8_t>(static_cast<size_t>(channels * size.height * size.width))};
}

Planes Copied(const PixelView& from) {
  Planes out = Empty(from.channels, from.size);
  uint8_t* to = out.data.data();
  for (int64_t c = 0; c < from.channels; ++c) {
    for (int64_t y = 0; y < from.size.height; ++y) {
      const uint8_t* at = from.data + c * from.channel_stride + y * from.row_stride;
      for (int64_t x = 0; x < from.size.width; ++x, at += from.pixel_stride) *to++ = *at;
    }
  }
  return out;
}

Planes ResizedRows(const PixelView& from, int64_t width) {
  const std::vector<Taps> taps = TapsOf(from.size.width, width);
  Planes out = Empty(from.channels, {from.size.height, width});
  uint8_t* to = out.data.data();
  for (int64_t c = 0; c < from.channels; ++c) {
    for (int64_t y = 0; y < from.size.height; ++y, to += width) {
      ResampleLine(taps, from.data + c * from.channel_stride + y * from.row_stride,
                   from.pixel_stride, to, 1);
    }
  }
  return out;
}

Planes ResizedColumns(const PixelView& from, int64_t height) {
  const std::vector<Taps> taps = TapsOf(from.size.height, height);
  Planes out = Empty(from.channels, {height, from.size.width});
  for (int64_t c = 0; c < from.channels; ++c) {
    uint8_t* plane = out.data.data() + c * height * from.size.width;
    for (int64_t x = 0; x < from.size.width; ++x) {
      ResampleLine(taps, from.data + c * from.channel_stride + x * from.pixel_stride,
                   from.row_stride, plane + x, from.size.width);
    }
  }
  return out;
}

}  // namespace

PixelView PixelView::Crop(int64_t top, int64_t left, ImageSize to) const {
  PixelView view = *this;
  view.data += top * row_stride + left * pixel_stride;
  view.size = to;
  return view;
}

PixelView PixelView::Mirrored() const {
  PixelView view = *this;
  view.data += (size.width - 1) * pixel_stride;
  view.pixel_stride = -pixel_stride;
  return view;
}

PixelView Planes::View() const {
  return {data.data(), channels, size, size.width, 1, size.height * size.width};
}

Planes Resized(const PixelView& from, ImageSize to) {
  if (from.size == to) return Copied(from);
  if (from.size.height == to.height) return ResizedRows(from, to.width);
  if (from.size.width == to.width) return ResizedColumns(from, to.height);
  const Planes rows = ResizedRows(from, to.width);
  return ResizedColumns(rows.View(), to.height);
}

}  // namespace ebb::data
