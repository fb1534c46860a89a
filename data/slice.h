// A part of a field's rows, as job files write it: "tokens[:-1]". Stateless.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/dataset.h"
#include "graph/types.h"

namespace ebb::data {

struct FieldSlice {
  std::string field;
  RowSlice slice;
};

// "field", "field[a:b]", "field[a:]", "field[:b]" with Python's meaning of negative numbers.
// InvalidArgument: text in brackets that is no such slice.
absl::StatusOr<FieldSlice> ParseFieldSlice(absl::string_view text);

// What a slice takes of a row: elements that follow one another.
struct RowPart {
  int64_t first = 0;
  int64_t elements = 0;
  graph::Shape shape;
};

// `field_shape` with the rows as axis 0. InvalidArgument: there is no axis 1, or the slice ends
// outside of it or before it begins.
absl::StatusOr<RowPart> PartOf(const RowSlice& slice, const graph::Shape& field_shape);

}  // namespace ebb::data
