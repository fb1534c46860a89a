// Augmentation: wire -> native.
#include "daemon/wire_augment.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace ebb::daemon {
namespace {

using data::Transform;
using Wire = v1::Augment::Transform;

Transform Sized(Transform::Kind kind, int64_t size) { return {.kind = kind, .size = size}; }

Transform NormalizeFromWire(const v1::Augment::Normalize& wire) {
  Transform transform{.kind = Transform::Kind::kNormalize};
  transform.mean.assign(wire.mean().begin(), wire.mean().end());
  transform.std.assign(wire.std().begin(), wire.std().end());
  if (transform.mean.empty() && transform.std.empty()) {
    transform.mean = data::ImageNetMean();
    transform.std = data::ImageNetStd();
  }
  return transform;
}

absl::StatusOr<Transform> OneFromWire(const Wire& wire) {
  switch (wire.kind_case()) {
    case Wire::kResize:
      return Sized(Transform::Kind::kResize, wire.resize());
    case Wire::kRandomResizedCrop:
      return Sized(Transform::Kind::kRandomResizedCrop, wire.random_resized_crop());
    case Wire::kCenterCrop:
      return Sized(Transform::Kind::kCenterCrop, wire.center_crop());
    case Wire::kRandomCrop:
      return Sized(Transform::Kind::kRandomCrop, wire.random_crop());
    case Wire::kHflip:
      return Transform{.kind = Transform::Kind::kHFlip,
                       .p = wire.hflip().has_p() ? wire.hflip().p() : 0.5};
    case Wire::kNormalize:
      return NormalizeFromWire(wire.normalize());
    case Wire::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "names no transform; give resize, random_resized_crop, center_crop, random_crop, hflip or "
      "normalize");
}

}  // namespace

absl::StatusOr<data::Transforms> TransformsFromWire(
    absl::string_view field, const google::protobuf::RepeatedPtrField<Wire>& wire) {
  data::Transforms transforms;
  for (const Wire& item : wire) {
    absl::StatusOr<Transform> transform = OneFromWire(item);
    if (!transform.ok()) {
      return Annotate(transform.status(), absl::StrCat(field, "[", transforms.size(), "]"));
    }
    transforms.push_back(*std::move(transform));
  }
  if (const absl::Status status = data::CheckTransforms(transforms); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(field, status.message()));  // "field[0] ..."
  }
  return transforms;
}

}  // namespace ebb::daemon
