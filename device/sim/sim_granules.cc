#include "device/sim/sim_granules.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace ebb::device {

absl::Status SimGranules::CheckRange(Bytes offset, Bytes bytes) const {
  if (offset < Bytes(0) || bytes < Bytes(0) || offset.count() % granule_.count() != 0 ||
      bytes.count() % granule_.count() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("simulated memory: the range at ", offset.count(), " of ", bytes.count(),
                     " bytes is not made of granules of ", granule_.count(), " bytes"));
  }
  return absl::OkStatus();
}

absl::StatusOr<char*> SimGranules::Reserve(Bytes bytes) {
  if (bytes <= Bytes(0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("simulated memory: cannot reserve ", bytes.count(), " bytes of addresses"));
  }
  void* base = mmap(nullptr, static_cast<size_t>(bytes.count()), PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "simulated memory: no addresses for ", FormatBytes(bytes), ": ", std::strerror(errno)));
  }
  MutexLock lock(&mu_);
  ranges_.emplace(static_cast<char*>(base), bytes);
  return static_cast<char*>(base);
}

void SimGranules::Unreserve(char* base, Bytes bytes) {
  {
    MutexLock lock(&mu_);
    EBB_CHECK(ranges_.erase(base) == 1);
  }
  EBB_CHECK(munmap(base, static_cast<size_t>(bytes.count())) == 0);
}

absl::Status SimGranules::Commit(char*, Bytes offset, Bytes bytes) {
  if (absl::Status status = CheckRange(offset, bytes); !status.ok()) return status;
  MutexLock lock(&mu_);
  if (committed_ + bytes > memory_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("simulated memory: ", FormatBytes(bytes), " asked for, ",
                     FormatBytes(memory_ - committed_), " of ", FormatBytes(memory_), " are left"));
  }
  committed_ += bytes;
  return absl::OkStatus();
}

void SimGranules::Decommit(char*, Bytes offset, Bytes bytes) {
  EBB_CHECK(CheckRange(offset, bytes).ok());
  MutexLock lock(&mu_);
  EBB_CHECK(bytes <= committed_);
  committed_ -= bytes;
}

bool SimGranules::Holds(const void* address) const {
  const auto* byte = static_cast<const char*>(address);
  MutexLock lock(&mu_);
  auto after = ranges_.upper_bound(byte);
  if (after == ranges_.begin()) return false;
  const auto& [base, bytes] = *std::prev(after);
  return std::less<>()(byte, base + bytes.count());
}

}  // namespace ebb::device
