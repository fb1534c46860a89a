// .npz: a zip of .npy files.
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "data/decode.h"
#include "data/npy.h"
#include "data/zip.h"

namespace ebb::data {
namespace {

constexpr ZipWords kWords = {"npz", "save it again with numpy.savez"};

}  // namespace

absl::StatusOr<std::map<std::string, graph::HostTensor>> ParseNpz(absl::string_view bytes,
                                                                  Bytes limit,
                                                                  const Reserve& reserve) {
  std::map<std::string, graph::HostTensor> arrays;
  const auto filter = [&](absl::string_view name, Bytes size) -> absl::StatusOr<ZipEntry> {
    if (!absl::EndsWith(name, ".npy") || name == ".npy") {
      return absl::InvalidArgumentError(absl::StrCat(
          "npz: entry ", Quoted(name), " is not a .npy array; write the file with numpy.savez"));
    }
    // As it lies in the file, and as a tensor. A larger claim than the limit is refused unread.
    if (reserve && size <= limit) EBB_RETURN_IF_ERROR(reserve(2 * size));
    return ZipEntry::kRead;
  };
  const auto visit = [&](absl::string_view name, const std::string& content) {
    absl::ConsumeSuffix(&name, ".npy");
    absl::StatusOr<graph::HostTensor> tensor = ParseNpy(content);
    if (!tensor.ok()) return tensor.status();
    if (arrays.emplace(std::string(name), *std::move(tensor)).second) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("npz: it is there twice; ", kWords.remedy));
  };
  EBB_RETURN_IF_ERROR(VisitZip(bytes, kWords, limit, filter, visit));
  if (arrays.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("npz: there is no array in it; ", kWords.remedy));
  }
  return arrays;
}

}  // namespace ebb::data
