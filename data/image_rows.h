// Rows that are images: which field they are, whether they fit the model, and their way into a
// batch. Stateless.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/dataset.h"

namespace ebb::data {

// `field` empty: "image" of an image set, else the only field of u8 rows [channels, height, width].
// InvalidArgument: there is no such field, or more than one.
absl::StatusOr<ImageField> ImageFieldOf(const DataSet& data, const std::string& field,
                                        Transforms transforms);

// For Validate(). REQUIRES source.image, which `binding` reads; the binding's axis 0 is the batch.
absl::Status CheckImages(const BatchSource& source, const FieldBinding& binding);
absl::Status CheckImageIsBound(const BatchSource& source);

// Decodes and transforms rows, on several threads; the last is repeated up to the batch size. The
// error is that of the first row that has one.
absl::Status FillImages(const BatchSource& source, absl::Span<const int64_t> rows, int64_t epoch,
                        float* out);

}  // namespace ebb::data
