// Data sets in safetensors files: tensors that share axis 0. Stateless.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/units.h"
#include "data/dataset.h"
#include "graph/types.h"

namespace ebb::data {

// The tensors by name; F16, I8, I16, U16 and U32 are widened as in other arrays. Unimplemented: an
// element type, by name. ResourceExhausted: together more than `limit` unpacked.
absl::StatusOr<std::map<std::string, graph::HostTensor>> ParseSafetensors(
    absl::string_view bytes, Bytes limit, const Reserve& reserve = {});

}  // namespace ebb::data
