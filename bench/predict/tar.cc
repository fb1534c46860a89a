#include "bench/predict/tar.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace ebb::bench {
namespace {

constexpr size_t kBlock = 512;

absl::string_view UpToNul(absl::string_view field) { return field.substr(0, field.find('\0')); }

absl::StatusOr<size_t> Octal(absl::string_view field) {
  size_t value = 0;
  for (const char c : field) {
    if (c == ' ' || c == '\0') continue;
    if (c < '0' || c > '7') return absl::InvalidArgumentError("a size is no octal number");
    value = value * 8 + static_cast<size_t>(c - '0');
  }
  return value;
}

}  // namespace

absl::StatusOr<std::vector<TarFile>> FilesOfTar(absl::string_view archive) {
  std::vector<TarFile> files;
  size_t at = 0;
  while (at + kBlock <= archive.size() && archive[at] != '\0') {
    const absl::string_view header = archive.substr(at, kBlock);
    EBB_ASSIGN_OR_RETURN(const size_t size, Octal(header.substr(124, 12)));
    at += kBlock;
    if (size > archive.size() - at) {
      return absl::InvalidArgumentError(absl::StrCat("byte ", at, ": the archive ends in a file"));
    }
    const char type = header[156];
    const absl::string_view name = UpToNul(header.substr(0, 100));
    const absl::string_view base = name.substr(name.rfind('/') + 1);
    if ((type == '0' || type == '\0') && !absl::StartsWith(base, "._")) {
      files.push_back({std::string(name), archive.substr(at, size)});
    }
    at += (size + kBlock - 1) / kBlock * kBlock;
    at = std::min(at, archive.size());
  }
  if (files.empty()) return absl::InvalidArgumentError("no archive of files");
  std::sort(files.begin(), files.end(),
            [](const TarFile& a, const TarFile& b) { return a.name < b.name; });
  return files;
}

}  // namespace ebb::bench
