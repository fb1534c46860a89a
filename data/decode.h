// From the raw bytes of an array in a file to a host tensor of a type that graphs know. Shared by
// the binary formats. Stateless.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/types.h"

namespace ebb::data {

enum class ByteOrder { kLittle, kBig };

// An element as it lies in the file: `kind` is numpy's letter ('f', 'i', 'u', 'b').
struct RawElement {
  char kind = 'f';
  int bytes = 4;
  ByteOrder order = ByteOrder::kLittle;
};

// InvalidArgument unless a payload of so many bytes is exactly what the shape says.
absl::Status CheckPayload(RawElement element, const graph::Shape& shape, size_t payload_bytes);

// The payload must have exactly the bytes that the shape says (checked before anything is
// allocated).
absl::StatusOr<graph::HostTensor> DecodeArray(RawElement element, const graph::Shape& shape,
                                              absl::string_view payload);

// Text from a file as it may stand in a message: escaped, and shortened if long.
std::string Quoted(absl::string_view text);

}  // namespace ebb::data
