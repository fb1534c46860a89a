// numpy's .npy format (versions 1 to 3) and its zip of several, .npz. Stateless.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/units.h"
#include "data/dataset.h"
#include "data/decode.h"
#include "graph/types.h"

namespace ebb::data {

bool IsNpy(absl::string_view bytes);

// What the header says, and the bytes after it as they are.
struct NpyArray {
  RawElement element;
  graph::Shape shape;
  absl::string_view payload;
};
// InvalidArgument: damaged, or in Fortran order. Unimplemented: an element type, by name.
absl::StatusOr<NpyArray> OpenNpy(absl::string_view bytes);
// The same, decoded; the payload must have the bytes that the header says.
absl::StatusOr<graph::HostTensor> ParseNpy(absl::string_view bytes);

// The arrays by name (without ".npy"). ResourceExhausted: together more than `limit` unpacked.
absl::StatusOr<std::map<std::string, graph::HostTensor>> ParseNpz(absl::string_view bytes,
                                                                  Bytes limit,
                                                                  const Reserve& reserve = {});

}  // namespace ebb::data
