// Resizing of 8-bit images. Stateless.
#pragma once

#include <cstdint>
#include <vector>

#include "data/image_codec.h"

namespace ebb::data {

// 8-bit pixels that someone else holds: what lies where is a matter of strides (in bytes), so that
// crops and mirror images are views.
struct PixelView {
  const uint8_t* data = nullptr;  // channel 0 of the upper left pixel
  int64_t channels = 0;
  ImageSize size;
  int64_t row_stride = 0;
  int64_t pixel_stride = 0;
  int64_t channel_stride = 0;

  PixelView Crop(int64_t top, int64_t left, ImageSize to) const;  // REQUIRES it lies inside
  PixelView Mirrored() const;                                     // left to right
};

// Pixels of one's own: a plane a channel.
struct Planes {
  int64_t channels = 0;
  ImageSize size;
  std::vector<uint8_t> data;

  PixelView View() const;
};

// Bilinear with antialiasing: a pixel is the mean of what it covers, weighted by a triangle that is
// as wide as two pixels of the smaller image. To the bit what PIL's Image.resize(BILINEAR) gives
// (src/libImaging/Resample.c), which is what torchvision's transforms of PIL images use.
Planes Resized(const PixelView& from, ImageSize to);

}  // namespace ebb::data
