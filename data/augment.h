// What is done to images on their way into a batch, as torchvision's transforms (v0.24) define it.
// Stateless; a pure function of the image, the list and the draws' key.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/image_codec.h"
#include "data/resample.h"

namespace ebb::data {

struct Transform {
  enum class Kind {
    kResize,             // Resize(size): the shorter side becomes `size`, bilinear, antialiased
    kRandomResizedCrop,  // RandomResizedCrop(size): 8 to 100 % of the area, 3:4 to 4:3
    kCenterCrop,         // CenterCrop(size): smaller images are padded with black
    kRandomCrop,         // RandomCrop(the image's own size, padding=size), black
    kHFlip,              // RandomHorizontalFlip(p)
    kNormalize,          // (x - mean) / std, last
  };
  Kind kind = Kind::kHFlip;
  int64_t size = 0;
  double p = 0.5;
  std::vector<double> mean, std;  // one for all channels, or one a channel
};
using Transforms = std::vector<Transform>;

// Of images in RGB that models trained on ImageNet expect.
std::vector<double> ImageNetMean();
std::vector<double> ImageNetStd();

// InvalidArgument: a size or probability that is none, normalize that is not last, or with another
// number of channels. Names transforms by their place: "[2].p".
absl::Status CheckTransforms(absl::Span<const Transform> transforms);
absl::Status CheckChannels(absl::Span<const Transform> transforms, int64_t channels);

// What size an image of size `from` has in the end, whatever is drawn. InvalidArgument: on the way
// it becomes larger than kMaxPixels.
absl::StatusOr<ImageSize> SizeAfter(absl::Span<const Transform> transforms, ImageSize from);

// Whose random numbers: the same for the same image in the same epoch, whatever else is going on.
struct DrawKey {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t row = 0;
};

// Writes [channels, height, width] floats: pixels in [0, 1], normalised if asked for.
void ApplyTransforms(absl::Span<const Transform> transforms, const PixelView& image,
                     const DrawKey& key, float* out);

}  // namespace ebb::data
