#include "data/augment.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/philox.h"

namespace ebb::data {
namespace {

using Kind = Transform::Kind;
constexpr int64_t kMostSide = 1 << 13;

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

// As Python's round().
int64_t Round(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

// Numbers for one image: Philox with key = seed, counter = (draw, domain and epoch, row).
class Draws {
 public:
  explicit Draws(const DrawKey& key) : key_(key) {}

  // In [0, 1), 24 bits.
  double Uniform() { return UniformFloat(Next()); }
  double Uniform(double low, double high) { return low + (high - low) * Uniform(); }
  // In [0, bound). The bias of a remainder of 32 bits is below 2^-18 for images' sides.
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(Next() % static_cast<uint64_t>(bound));
  }

 private:
  uint32_t Next() {
    if (used_ == words_.size()) {
      constexpr uint32_t kDomain = 0x61756700;  // "aug": apart from other uses of the same seed
      const auto epoch = static_cast<uint32_t>(key_.epoch);
      const auto row = static_cast<uint64_t>(key_.row);
      words_ = Philox(
          {block_, kDomain ^ epoch, static_cast<uint32_t>(row), static_cast<uint32_t>(row >> 32)},
          PhiloxKeyFrom(key_.seed));
      ++block_;
      used_ = 0;
    }
    return words_[used_++];
  }

  const DrawKey key_;
  uint32_t block_ = 0;
  PhiloxCounter words_ = {};
  size_t used_ = 4;
};

ImageSize ShorterSideTo(int64_t side, ImageSize from) {
  if (from.width <= from.height) return {side * from.height / from.width, side};
  return {side, side * from.width / from.height};
}

struct Box {
  int64_t top = 0, left = 0;
  ImageSize size;
};

// torchvision's RandomResizedCrop.get_params.
Box RandomBox(ImageSize image, Draws* draws) {
  constexpr double kLeast = 3.0 / 4.0, kMost = 4.0 / 3.0;
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = height * width * draws->Uniform(0.08, 1.0);
    const double ratio = std::exp(draws->Uniform(std::log(kLeast), std::log(kMost)));
    const ImageSize size{Round(std::sqrt(area / ratio)), Round(std::sqrt(area * ratio))};
    if (size.width > 0 && size.width <= image.width && size.height > 0 &&
        size.height <= image.height) {
      const int64_t top = draws->Below(image.height - size.height + 1);
      const int64_t left = draws->Below(image.width - size.width + 1);
      return {top, left, size};
    }
  }
  ImageSize size = image;  // the middle, in the nearest ratio that is allowed
  if (width / height < kLeast) size.height = Round(width / kLeast);
  if (width / height > kMost) size.width = Round(height * kMost);
  return {(image.height - size.height) / 2, (image.width - size.width) / 2, size};
}

// A part of the image that may reach beyond it, where it is black.
Planes Window(const PixelView& from, int64_t top, int64_t left, ImageSize size) {
  Planes out{from.channels, size,
             std::vector<uint8_t>(static_cast<size_t>(from.channels * size.height * size.width))};
  const int64_t first_x = std::max<int64_t>(0, -left);
  const int64_t end_x = std::min(size.width, from.size.width - left);
  for (int64_t c = 0; c < from.channels; ++c) {
    for (int64_t y = 0; y < size.height; ++y) {
      if (top + y < 0 || top + y >= from.size.height) continue;
      const uint8_t* row = from.data + c * from.channel_stride + (top + y) * from.row_stride;
      uint8_t* to = out.data.data() + (c * size.height + y) * size.width;
      for (int64_t x = first_x; x < end_x; ++x) to[x] = row[(left + x) * from.pixel_stride];
    }
  }
  return out;
}

// Where torchvision's CenterCrop begins: smaller images are padded first, the odd pixel behind.
int64_t CenterBegin(int64_t from, int64_t to) {
  return from < to ? -((to - from) / 2) : Round(static_cast<double>(from - to) / 2.0);
}

// The image as it is so far, and the memory that it lies in where it is not the caller's.
struct Work {
  PixelView view;
  Planes own;
  void Take(Planes planes) {
    own = std::move(planes);
    view = own.View();
  }
};

void ApplyOne(const Transform& transform, Draws* draws, Work* work) {
  PixelView& view = work->view;
  const int64_t side = transform.size;
  switch (transform.kind) {
    case Kind::kResize:
      if (const ImageSize to = ShorterSideTo(side, view.size); to != view.size) {
        work->Take(Resized(view, to));
      }
      return;
    case Kind::kRandomResizedCrop: {
      const Box box = RandomBox(view.size, draws);
      work->Take(Resized(view.Crop(box.top, box.left, box.size), {side, side}));
      return;
    }
    case Kind::kCenterCrop: {
      const int64_t top = CenterBegin(view.size.height, side);
      const int64_t left = CenterBegin(view.size.width, side);
      if (top >= 0 && left >= 0) {
        view = view.Crop(top, left, {side, side});
      } else {
        work->Take(Window(view, top, left, {side, side}));
      }
      return;
    }
    case Kind::kRandomCrop: {
      const int64_t top = draws->Below(2 * side + 1) - side;
      const int64_t left = draws->Below(2 * side + 1) - side;
      work->Take(Window(view, top, left, view.size));
      return;
    }
    case Kind::kHFlip:
      if (draws->Uniform() < transform.p) view = view.Mirrored();
      return;
    case Kind::kNormalize:
      return;
  }
}

// What each value of a channel becomes: as ToTensor, then Normalize in f32.
std::array<float, 256> TableOf(absl::Span<const Transform> transforms, int64_t channel) {
  std::array<float, 256> table;
  for (int value = 0; value < 256; ++value) table[value] = static_cast<float>(value) / 255.0f;
  if (transforms.empty() || transforms.back().kind != Kind::kNormalize) return table;
  const auto of = [channel](const std::vector<double>& values) {
    return static_cast<float>(values[values.size() == 1 ? 0 : static_cast<size_t>(channel)]);
  };
  const float mean = of(transforms.back().mean), std = of(transforms.back().std);
  for (float& value : table) value = (value - mean) / std;
  return table;
}

absl::Status CheckNormalize(const Transform& transform, const std::string& where) {
  if (transform.mean.empty() || transform.std.empty()) {
    return Invalid(absl::StrCat(where, " needs both mean and std, or none for ImageNet's"));
  }
  for (const double value : transform.mean) {
    if (!std::isfinite(value) || std::abs(value) > 1e6) {
      return Invalid(absl::StrCat(where, ".mean has ", value, "; pixels are in [0, 1]"));
    }
  }
  for (const double value : transform.std) {
    if (!(value >= 1e-6 && value <= 1e6)) {
      return Invalid(absl::StrCat(where, ".std has ", value, "; it divides pixels in [0, 1]"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<double> ImageNetMean() { return {0.485, 0.456, 0.406}; }
std::vector<double> ImageNetStd() { return {0.229, 0.224, 0.225}; }

absl::Status CheckTransforms(absl::Span<const Transform> transforms) {
  for (size_t i = 0; i < transforms.size(); ++i) {
    const Transform& transform = transforms[i];
    const std::string where = absl::StrCat("[", i, "]");
    if (transform.kind == Kind::kNormalize) {
      if (i + 1 != transforms.size()) {
        return Invalid(
            absl::StrCat(where, ": normalize is not the last; put it behind the others"));
      }
      if (absl::Status status = CheckNormalize(transform, where + ".normalize"); !status.ok()) {
        return status;
      }
    } else if (transform.kind == Kind::kHFlip) {
      if (!(transform.p >= 0 && transform.p <= 1)) {
        return Invalid(absl::StrCat(where, ".hflip.p is ", transform.p, "; it must be in [0, 1]"));
      }
    } else if (transform.size < 1 || transform.size > kMostSide) {
      return Invalid(absl::StrCat(where, " says ", transform.size,
                                  " pixels; it must be between 1 and ", kMostSide));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckChannels(absl::Span<const Transform> transforms, int64_t channels) {
  if (transforms.empty() || transforms.back().kind != Kind::kNormalize) return absl::OkStatus();
  for (const auto* values : {&transforms.back().mean, &transforms.back().std}) {
    const auto count = static_cast<int64_t>(values->size());
    if (count != 1 && count != channels) {
      return Invalid(absl::StrCat("normalize has ", count, " values, but images have ", channels,
                                  " channels; give mean and std, one a channel"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ImageSize> SizeAfter(absl::Span<const Transform> transforms, ImageSize from) {
  for (const Transform& transform : transforms) {
    if (transform.kind == Kind::kResize) {
      const ImageSize to = ShorterSideTo(transform.size, from);
      if (to.width > kMaxPixels / to.height) {
        return Invalid(absl::StrCat("resize makes ", from.width, " x ", from.height, " pixels ",
                                    to.width, " x ", to.height, ", more than the limit of ",
                                    kMaxPixels));
      }
      from = to;
    }
    if (transform.kind == Kind::kRandomResizedCrop || transform.kind == Kind::kCenterCrop) {
      from = {transform.size, transform.size};
    }
  }
  return from;
}

void ApplyTransforms(absl::Span<const Transform> transforms, const PixelView& image,
                     const DrawKey& key, float* out) {
  Draws draws(key);
  Work work{.view = image, .own = {}};
  for (const Transform& transform : transforms) ApplyOne(transform, &draws, &work);
  const PixelView& view = work.view;
  for (int64_t c = 0; c < view.channels; ++c) {
    const std::array<float, 256> table = TableOf(transforms, c);
    for (int64_t y = 0; y < view.size.height; ++y) {
      const uint8_t* at = view.data + c * view.channel_stride + y * view.row_stride;
      for (int64_t x = 0; x < view.size.width; ++x, at += view.pixel_stride) *out++ = table[*at];
    }
  }
}

}  // namespace ebb::data
