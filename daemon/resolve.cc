#include "daemon/resolve.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/sha256.h"
#include "base/status.h"
#include "daemon/files.h"
#include "daemon/image_folder.h"
#include "model/safetensors.h"

namespace ebb::daemon {
namespace {

// `value`, which gives its share of the host's memory back with its last owner.
template <class T>
std::shared_ptr<const T> Holding(std::unique_ptr<HostBudget::Share> share, T value) {
  struct Held {
    std::unique_ptr<HostBudget::Share> share;
    T value;
  };
  auto held = std::make_shared<const Held>(Held{std::move(share), std::move(value)});
  return std::shared_ptr<const T>(held, &held->value);
}

data::Reserve Reserving(HostBudget::Share* share) {
  return [share](Bytes bytes) { return share->Grow(bytes); };
}

}  // namespace

Resolver::Resolver(const Store* store, std::vector<std::string> roots, Bytes file_limit,
                   Bytes host_memory)
    : store_(store), roots_(roots), file_limit_(file_limit), budget_(host_memory) {}

absl::StatusOr<std::string> Resolver::ReadHostFile(const std::string& path,
                                                   HostBudget::Share* share) const {
  EBB_ASSIGN_OR_RETURN(const int fd, roots_.Open(path));
  absl::Cleanup closer = [fd] { close(fd); };
  struct stat info;
  if (fstat(fd, &info) != 0) return FileError(errno, "cannot read", path);
  EBB_RETURN_IF_ERROR(Annotate(share->Grow(Bytes(info.st_size)), path));
  return ReadDescriptor(fd, path, file_limit_);
}

absl::StatusOr<std::shared_ptr<const std::string>> Resolver::Read(absl::string_view reference) {
  auto share = std::make_unique<HostBudget::Share>(budget_);
  if (absl::StartsWith(reference, "sha256:") || absl::StartsWith(reference, "store:")) {
    EBB_ASSIGN_OR_RETURN(const ObjectInfo info, store_->Find(reference));
    EBB_RETURN_IF_ERROR(Annotate(share->Grow(info.bytes), reference));
    auto bytes = ReadFile(store_->PathOf(info), file_limit_);
    if (bytes.status().code() == absl::StatusCode::kResourceExhausted) return bytes.status();
    if (!bytes.ok() || Sha256Hex(*bytes) != info.sha256) {
      return absl::DataLossError(absl::StrCat(
          "the stored object ", reference, " is ", bytes.ok() ? "damaged" : "gone", " on disk; ",
          "`ebb data rm sha256:", info.sha256.substr(0, 12), "` and store it again"));
    }
    return Holding(std::move(share), *std::move(bytes));
  }
  absl::string_view path = reference;
  absl::ConsumePrefix(&path, "host:");
  if (!absl::StartsWith(path, "/")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", reference,
        "' is not a sha256: or store: reference, nor an absolute host: path; give one of those"));
  }
  EBB_ASSIGN_OR_RETURN(std::string bytes, ReadHostFile(std::string(path), share.get()));
  return Holding(std::move(share), std::move(bytes));
}

absl::StatusOr<std::shared_ptr<const graph::TensorMap>> Resolver::Weights(
    absl::string_view reference) {
  EBB_ASSIGN_OR_RETURN(const auto bytes, Read(reference));
  auto share = std::make_unique<HostBudget::Share>(budget_);
  EBB_RETURN_IF_ERROR(Annotate(share->Grow(Bytes(static_cast<int64_t>(bytes->size()))), reference));
  auto tensors = model::ReadSafetensors(*bytes);
  if (!tensors.ok()) return Annotate(tensors.status(), reference);
  return Holding(std::move(share), *std::move(tensors));
}

absl::StatusOr<std::shared_ptr<const std::vector<int64_t>>> Resolver::Index(
    absl::string_view reference) {
  EBB_ASSIGN_OR_RETURN(const auto bytes, Read(reference));
  auto share = std::make_unique<HostBudget::Share>(budget_);
  auto rows = data::ParseIndex(*bytes, file_limit_, Reserving(share.get()));
  if (!rows.ok()) return Annotate(rows.status(), reference);
  // The job has them in the orders of this and the next epoch too.
  const Bytes held = Bytes(4 * sizeof(int64_t)) * static_cast<int64_t>(rows->size());
  share->Shrink(Bytes(0));
  EBB_RETURN_IF_ERROR(Annotate(share->Grow(held), reference));
  return Holding(std::move(share), *std::move(rows));
}

absl::StatusOr<std::shared_ptr<const data::DataSet>> Resolver::Load(
    absl::string_view reference, const data::FileOptions& options) {
  std::string how = absl::StrCat("rows ", options.csv.label_column);
  for (const data::SparseRule& rule : options.sparse) {
    absl::StrAppend(&how, " ", rule.match.size(), ":", rule.match, " ", rule.pad_to, " ",
                    rule.pad_value, " ", static_cast<int>(rule.overlong));
  }
  return LoadAs(reference, how, [&](absl::string_view bytes, const data::Reserve& reserve) {
    return data::ParseDataSet(bytes, options, data::kMaxDataSetBytes, reserve);
  });
}

absl::StatusOr<std::shared_ptr<const data::DataSet>> Resolver::LoadTokens(
    absl::string_view reference, const data::TokenOptions& options) {
  // Fractions in hexadecimal: their own bits.
  const std::string how = absl::StrFormat("tokens %d %d %a %a", static_cast<int>(options.type),
                                          options.window, options.from, options.to);
  return LoadAs(reference, how, [&](absl::string_view bytes, const data::Reserve& reserve) {
    return data::ParseTokens(bytes, options, data::kMaxDataSetBytes, reserve);
  });
}

absl::StatusOr<std::shared_ptr<const data::DataSet>> Resolver::LoadImages(
    absl::string_view reference) {
  absl::string_view path = reference;
  if (absl::ConsumePrefix(&path, "host:") || absl::StartsWith(path, "/")) {
    struct stat info;
    EBB_ASSIGN_OR_RETURN(const int fd, roots_.Open(std::string(path)));
    absl::Cleanup closer = [fd] { close(fd); };
    if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) return LoadFolder(std::string(path));
  }
  return LoadAs(
      reference, "images",
      [](absl::string_view bytes,
         const data::Reserve& reserve) -> absl::StatusOr<std::shared_ptr<const data::DataSet>> {
        EBB_ASSIGN_OR_RETURN(auto images,
                             data::ParseImageZip(bytes, data::kMaxDataSetBytes, reserve));
        return data::DataSet::OfImages(std::move(images));
      });
}

absl::StatusOr<std::shared_ptr<const data::DataSet>> Resolver::LoadFolder(const std::string& path) {
  auto share = std::make_unique<HostBudget::Share>(budget_);
  auto images = OpenImageFolder(roots_, path, Reserving(share.get()));
  if (!images.ok()) return Annotate(images.status(), path);
  std::shared_ptr<const data::DataSet> set = data::DataSet::OfImages(*std::move(images));
  EBB_RETURN_IF_ERROR(Annotate(share->Grow(set->bytes()), path));
  share->Shrink(set->bytes());
  const auto held = Holding(std::move(share), std::move(set));
  return std::shared_ptr<const data::DataSet>(held, held->get());
}

absl::StatusOr<std::shared_ptr<const data::DataSet>> Resolver::LoadAs(absl::string_view reference,
                                                                      const std::string& how,
                                                                      Parse parse) {
  // A stored object's hash is known: no need to read it again when it is loaded.
  std::string sha256;
  std::shared_ptr<const std::string> bytes;
  if (const auto info = store_->Find(reference); info.ok()) {
    sha256 = info->sha256;
  } else {
    EBB_ASSIGN_OR_RETURN(bytes, Read(reference));
    sha256 = Sha256Hex(*bytes);
  }
  const std::pair<std::string, std::string> key(sha256, how);
  {
    MutexLock lock(&mu_);
    if (const auto it = cache_.find(key); it != cache_.end()) {
      if (auto loaded = it->second.lock()) return loaded;
    }
  }
  if (bytes == nullptr) {
    EBB_ASSIGN_OR_RETURN(bytes, Read(reference));
  }
  auto share = std::make_unique<HostBudget::Share>(budget_);
  auto parsed = parse(*bytes, Reserving(share.get()));
  if (!parsed.ok()) return Annotate(parsed.status(), reference);
  share->Shrink((*parsed)->bytes());
  const auto held = Holding(std::move(share), *std::move(parsed));
  const std::shared_ptr<const data::DataSet> loaded(held, held->get());
  MutexLock lock(&mu_);
  absl::erase_if(cache_, [](const auto& entry) { return entry.second.expired(); });
  auto& slot = cache_[key];
  if (auto other = slot.lock()) return other;  // someone was faster
  slot = loaded;
  return loaded;
}

}  // namespace ebb::daemon
