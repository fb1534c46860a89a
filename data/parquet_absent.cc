// In the place of parquet.cc where the build found no Arrow.
#include "absl/strings/match.h"
#include "data/parquet.h"

namespace ebb::data {

bool IsParquet(absl::string_view bytes) { return absl::StartsWith(bytes, "PAR1"); }

bool ReadsParquet() { return false; }

absl::StatusOr<std::map<std::string, graph::HostTensor>> ParseParquet(absl::string_view, Bytes,
                                                                      const Reserve&) {
  return absl::UnimplementedError(
      "this ebbd was built without Arrow, which reads Parquet; save the columns with numpy.savez, "
      "or "
      "build with -DEBB_PARQUET=ON (docs/data.md)");
}

}  // namespace ebb::data
