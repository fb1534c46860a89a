// Parquet files, by Arrow's C++ library where the build found one. Stateless.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/units.h"
#include "data/dataset.h"
#include "graph/types.h"

namespace ebb::data {

bool IsParquet(absl::string_view bytes);

// Whether this build reads Parquet: parquet.cc is linked, and not parquet_absent.cc.
bool ReadsParquet();

// A column of numbers or bool is a field, one of lists of a fixed size a field with an axis 1, and
// one of other lists of integers a sparse feature: NAME.indices and NAME.offsets (data/sparse.h).
// Types that graphs lack are widened as in other arrays. InvalidArgument: damaged, or a null, by
// column and row. Unimplemented: a column of another type, by name; or Parquet as a whole.
// ResourceExhausted: more than `limit` unpacked.
absl::StatusOr<std::map<std::string, graph::HostTensor>> ParseParquet(absl::string_view bytes,
                                                                      Bytes limit,
                                                                      const Reserve& reserve = {});

}  // namespace ebb::data
