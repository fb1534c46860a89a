// Augmentation as job specs have it, to what data/augment.h does. Stateless.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/augment.h"
#include "ebb/v1/job.pb.h"

namespace ebb::daemon {

// `field`: where it stands in the spec, for errors.
absl::StatusOr<data::Transforms> TransformsFromWire(
    absl::string_view field,
    const google::protobuf::RepeatedPtrField<v1::Augment::Transform>& wire);

}  // namespace ebb::daemon
