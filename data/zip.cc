#include "data/zip.h"

#include <zip.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "data/decode.h"

namespace ebb::data {
namespace {

constexpr uint64_t kMaxDeflateRatio = 1032;

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseEntry {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};
using Archive = std::unique_ptr<zip_t, Discard>;

absl::Status Damaged(const ZipWords& words, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(words.format, ": ", what, "; ", words.remedy, " (unzip -t FILE checks it)"));
}

absl::StatusOr<Archive> Open(absl::string_view bytes, const ZipWords& words) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  zip_t* archive = nullptr;
  if (source != nullptr) {
    archive = zip_open_from_source(source, ZIP_RDONLY, &error);
    if (archive == nullptr) zip_source_free(source);
  }
  absl::Status status;
  if (archive == nullptr) status = Damaged(words, zip_error_strerror(&error));
  zip_error_fini(&error);
  if (!status.ok()) return status;
  return Archive(archive);
}

absl::Status CheckEntry(const zip_stat_t& stat, const ZipWords& words, Bytes left, Bytes limit) {
  constexpr zip_uint64_t kNeeded =
      ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((stat.valid & kNeeded) != kNeeded) return Damaged(words, "an entry without a size");
  if (stat.encryption_method != ZIP_EM_NONE) {
    return absl::UnimplementedError("encrypted entries are not supported");
  }
  if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE) {
    return absl::UnimplementedError(
        absl::StrCat("zip compression method ", stat.comp_method,
                     " is not supported, but stored and deflated entries are; ", words.remedy));
  }
  if (stat.size > static_cast<uint64_t>(left.count())) {
    return absl::ResourceExhaustedError(
        absl::StrCat(words.format, ": unpacks to more than the limit of ", FormatBytes(limit)));
  }
  const uint64_t most =
      stat.comp_method == ZIP_CM_STORE ? stat.comp_size : (stat.comp_size + 1) * kMaxDeflateRatio;
  if (stat.size > most) return Damaged(words, "an entry says it is larger than it can be");
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadEntry(zip_t* archive, zip_uint64_t index, const zip_stat_t& stat,
                                      const ZipWords& words) {
  const std::unique_ptr<zip_file_t, CloseEntry> entry(zip_fopen_index(archive, index, 0));
  if (entry == nullptr) return Damaged(words, zip_strerror(archive));
  std::string out(stat.size, '\0');
  size_t at = 0;
  while (at < out.size()) {
    const zip_int64_t count = zip_fread(entry.get(), out.data() + at, out.size() - at);
    if (count < 0) return Damaged(words, zip_file_strerror(entry.get()));
    if (count == 0) return Damaged(words, "an entry is shorter than it says");
    at += static_cast<size_t>(count);
  }
  // One read past the end makes libzip verify the checksum, and shows an entry that goes on.
  char extra = 0;
  const zip_int64_t count = zip_fread(entry.get(), &extra, 1);
  if (count < 0) return Damaged(words, zip_file_strerror(entry.get()));
  if (count > 0) return Damaged(words, "an entry is longer than it says");
  return out;
}

}  // namespace

bool IsZip(absl::string_view bytes) {
  return absl::StartsWith(bytes, "PK\x03\x04") || absl::StartsWith(bytes, "PK\x05\x06");
}

absl::Status VisitZip(absl::string_view bytes, const ZipWords& words, Bytes limit, ZipFilter filter,
                      ZipVisitor visit) {
  EBB_ASSIGN_OR_RETURN(const Archive archive, Open(bytes, words));
  Bytes left = limit;
  const zip_int64_t entries = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < entries; ++i) {
    const auto index = static_cast<zip_uint64_t>(i);
    zip_stat_t stat;
    if (zip_stat_index(archive.get(), index, 0, &stat) != 0 || !(stat.valid & ZIP_STAT_NAME)) {
      return Damaged(words, "an entry without a name");
    }
    const std::string context = absl::StrCat("entry ", Quoted(stat.name));
    const auto size = static_cast<int64_t>(std::min<uint64_t>(stat.size, INT64_MAX / 4));
    EBB_ASSIGN_OR_RETURN(const ZipEntry wanted, filter(stat.name, Bytes(size)));
    if (wanted == ZipEntry::kSkip) continue;
    absl::Status status = CheckEntry(stat, words, left, limit);
    if (status.ok() && stat.comp_size > bytes.size()) {
      status = Damaged(words, "an entry is larger than the file");
    }
    if (!status.ok()) return Annotate(status, context);
    absl::StatusOr<std::string> content = ReadEntry(archive.get(), index, stat, words);
    if (!content.ok()) return Annotate(content.status(), context);
    left -= Bytes(static_cast<int64_t>(content->size()));
    EBB_RETURN_IF_ERROR(Annotate(visit(stat.name, *std::move(content)), context));
  }
  return absl::OkStatus();
}

}  // namespace ebb::data
