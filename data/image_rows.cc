#include "data/image_rows.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "data/decode.h"

namespace ebb::data {
namespace {

using graph::DType;
using graph::HostTensor;

constexpr int64_t kMostThreads = 8;

bool HoldsImages(const HostTensor& tensor) {
  return tensor.type.dtype == DType::kU8 && tensor.type.shape.size() == 4;
}

std::string Named(const BatchSource& source, int64_t row) {
  const ImageSet* images = source.data->images();
  return images != nullptr ? Quoted(images->path(row))
                           : absl::StrCat("field \"", source.image->field, "\"");
}

PixelView ViewOf(const HostTensor& field, int64_t row) {
  const graph::Shape& shape = field.type.shape;
  const int64_t plane = shape[2] * shape[3];
  return {.data = field.as<uint8_t>().data() + row * shape[1] * plane,
          .channels = shape[1],
          .size = {shape[2], shape[3]},
          .row_stride = shape[3],
          .pixel_stride = 1,
          .channel_stride = plane};
}

PixelView ViewOf(const Image& image) {
  return {image.rgb.data(), 3, image.size, 3 * image.size.width, 3, 1};
}

absl::Status FillOne(const BatchSource& source, const DrawKey& key, float* out) try {
  const Transforms& transforms = source.image->transforms;
  const ImageSet* images = source.data->images();
  if (images == nullptr) {
    const HostTensor& field = source.data->fields().at(source.image->field);
    ApplyTransforms(transforms, ViewOf(field, key.row), key, out);
    return absl::OkStatus();
  }
  EBB_ASSIGN_OR_RETURN(const Image image, images->Decode(key.row));
  ApplyTransforms(transforms, ViewOf(image), key, out);
  return absl::OkStatus();
} catch (const std::bad_alloc&) {
  return absl::ResourceExhaustedError("the host has too little memory to decode images");
}

int64_t ThreadsFor(const BatchSource& source, int64_t rows) {
  if (source.data->images() == nullptr) return 1;
  const auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  return std::clamp<int64_t>(std::min(rows, cores / 2), 1, kMostThreads);
}

int64_t ElementsOfRow(const BatchSource& source) {
  for (const FieldBinding& binding : source.bindings) {
    if (binding.field == source.image->field) {
      return graph::NumElements(binding.type.shape) / source.batch_size;
    }
  }
  return 0;
}

}  // namespace

absl::StatusOr<ImageField> ImageFieldOf(const DataSet& data, const std::string& field,
                                        Transforms transforms) {
  if (data.images() != nullptr) {
    if (!field.empty() && field != "image") {
      return absl::InvalidArgumentError(
          absl::StrCat("field ", Quoted(field), " is not \"image\", the images' field"));
    }
    return ImageField{"image", std::move(transforms)};
  }
  std::vector<std::string> able;
  for (const auto& [name, tensor] : data.fields()) {
    if (HoldsImages(tensor)) able.push_back(name);
  }
  const std::string they = able.empty()
                               ? "the data have no field of u8 rows [channels, height, width]"
                               : absl::StrCat("fields of u8 rows [channels, height, width] are ",
                                              absl::StrJoin(able, ", "));
  if (!field.empty() && std::find(able.begin(), able.end(), field) == able.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("field ", Quoted(field), " cannot be augmented; ", they));
  }
  if (field.empty() && able.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("which field holds the images? ", they, able.empty() ? "" : "; say field"));
  }
  return ImageField{field.empty() ? able[0] : field, std::move(transforms)};
}

absl::Status CheckImages(const BatchSource& source, const FieldBinding& binding) {
  const Transforms& transforms = source.image->transforms;
  const ImageSet* images = source.data->images();
  const HostTensor* field =
      images == nullptr ? &source.data->fields().at(source.image->field) : nullptr;
  const int64_t channels = field == nullptr ? 3 : field->type.shape[1];
  if (binding.slice.from || binding.slice.to) {
    return absl::InvalidArgumentError(absl::StrCat(
        "field \"", binding.field, "\" is images: bind it without a slice, and crop by augment"));
  }
  if (binding.type.dtype != DType::kF32) {
    return absl::InvalidArgumentError(absl::StrCat("field \"", binding.field,
                                                   "\" is images, which become f32, but the model "
                                                   "input is ",
                                                   Name(binding.type.dtype)));
  }
  EBB_RETURN_IF_ERROR(CheckChannels(transforms, channels));
  const auto wanted = absl::MakeConstSpan(binding.type.shape).subspan(1);
  for (const int64_t row : source.rows) {
    const ImageSize from = images != nullptr
                               ? images->size(row)
                               : ImageSize{field->type.shape[2], field->type.shape[3]};
    const absl::StatusOr<ImageSize> to = SizeAfter(transforms, from);
    if (!to.ok()) return Annotate(to.status(), Named(source, row));
    const int64_t shape[] = {channels, to->height, to->width};
    if (!RowShapesFit(shape, wanted)) {
      return absl::InvalidArgumentError(
          absl::StrCat(Named(source, row), " becomes [", absl::StrJoin(shape, ","),
                       "], but the model input "
                       "takes [",
                       absl::StrJoin(wanted, ","),
                       "]; bring all images to its size by "
                       "data.augment: random_resized_crop, or resize and center_crop"));
    }
    if (images == nullptr) break;  // all rows are alike
  }
  return absl::OkStatus();
}

absl::Status CheckImageIsBound(const BatchSource& source) {
  for (const FieldBinding& binding : source.bindings) {
    if (binding.field == source.image->field) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "field \"", source.image->field, "\" is augmented but feeds no model input; bind one to it"));
}

absl::Status FillImages(const BatchSource& source, absl::Span<const int64_t> rows, int64_t epoch,
                        float* out) {
  const int64_t elements = ElementsOfRow(source);
  const auto count = static_cast<int64_t>(rows.size());
  std::vector<absl::Status> results(rows.size());
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    for (int64_t i = next++; i < count; i = next++) {
      const DrawKey key{source.seed, epoch, rows[static_cast<size_t>(i)]};
      results[static_cast<size_t>(i)] = FillOne(source, key, out + i * elements);
    }
  };
  {
    std::vector<std::jthread> helpers;
    try {
      for (int64_t i = ThreadsFor(source, count); i > 1; --i) helpers.emplace_back(work);
    } catch (const std::system_error&) {  // no thread to be had: fewer do it too
    }
    work();
  }
  for (const absl::Status& status : results) EBB_RETURN_IF_ERROR(status);
  for (int64_t row = count; row < source.batch_size; ++row) {
    std::memcpy(out + row * elements, out + (count - 1) * elements,
                static_cast<size_t>(elements) * sizeof(float));
  }
  return absl::OkStatus();
}

}  // namespace ebb::data
