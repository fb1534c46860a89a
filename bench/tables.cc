#include "bench/tables.h"

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "data/gzip.h"

namespace ebb::bench {

constexpr Bytes kMaxTable = MiB(256);

absl::StatusOr<std::string> ReadTable(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(path);
  file.peek();  // a folder opens, but has no bytes
  if (file.bad()) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!data::IsGzip(bytes)) return bytes;
  auto text = data::Gunzip(bytes, kMaxTable);
  if (!text.ok()) return Annotate(text.status(), path);
  return text;
}

}  // namespace ebb::bench
