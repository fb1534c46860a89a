// Memory of the double: addresses without access, which granules are given and lose again.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tests/device/cuda_double/double_api.h"

namespace ebb::testing {
namespace {

bool Holds(const std::map<const char*, Bytes>& ranges, const void* address) {
  const auto* const byte = static_cast<const char*>(address);
  const auto after = ranges.upper_bound(byte);
  if (after == ranges.begin()) return false;
  const auto& [base, bytes] = *std::prev(after);
  return byte < base + bytes.count();
}

absl::StatusOr<char*> MapAddresses(Bytes bytes, int protection) {
  void* const base = mmap(nullptr, static_cast<size_t>(bytes.count()), protection,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base != MAP_FAILED) return static_cast<char*>(base);
  return absl::ResourceExhaustedError(
      absl::StrCat("no addresses for ", FormatBytes(bytes), ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<device::cuda::MemoryInfo> DoubleApi::Memory() {
  MutexLock lock(&mu_);
  EBB_RETURN_IF_ERROR(Alive());
  return device::cuda::MemoryInfo{.free = Free(), .total = options_.memory};
}

Bytes DoubleApi::taken() const {
  MutexLock lock(&mu_);
  return taken_;
}

Bytes DoubleApi::mapped() const {
  MutexLock lock(&mu_);
  return mapped_;
}

absl::StatusOr<char*> DoubleApi::Reserve(Bytes bytes) {
  EBB_ASSIGN_OR_RETURN(char* const base, MapAddresses(bytes, PROT_NONE));
  MutexLock lock(&mu_);
  ++calls_.allocations;
  reserved_.emplace(base, bytes);
  return base;
}

void DoubleApi::Unreserve(char* base, Bytes bytes) {
  MutexLock lock(&mu_);
  ++calls_.allocations;
  // What has memory keeps its addresses.
  const auto mapped = granules_.lower_bound(base);
  EBB_CHECK(!dead_.ok() || mapped == granules_.end() || mapped->first >= base + bytes.count());
  EBB_CHECK(reserved_.erase(base) == 1);
  EBB_CHECK(munmap(base, static_cast<size_t>(bytes.count())) == 0);
}

absl::Status DoubleApi::Map(char* address, Bytes bytes) {
  MutexLock lock(&mu_);
  EBB_RETURN_IF_ERROR(OutsideCapture("cuMemCreate"));
  ++calls_.allocations;
  const Bytes more = std::max(mapped_ + bytes - taken_, Bytes(0));
  if (Fails(Fault::kMap) || more > Free()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(FormatBytes(more), " asked for, ", FormatBytes(Free()), " are left"));
  }
  taken_ += more;
  EBB_CHECK(Holds(reserved_, address) && Holds(reserved_, address + bytes.count() - 1));
  for (Bytes at; at < bytes; at += options_.granule) {
    EBB_CHECK(granules_.emplace(address + at.count(), options_.granule).second);  // not twice
  }
  mapped_ += bytes;
  EBB_CHECK(mprotect(address, static_cast<size_t>(bytes.count()), PROT_READ | PROT_WRITE) == 0);
  return absl::OkStatus();
}

absl::Status DoubleApi::Unmap(char* address, Bytes bytes) {
  MutexLock lock(&mu_);
  EBB_RETURN_IF_ERROR(OutsideCapture("cuMemUnmap"));
  ++calls_.allocations;
  for (Bytes at; at < bytes; at += options_.granule) {
    EBB_CHECK(granules_.erase(address + at.count()) == 1);
  }
  mapped_ -= bytes;
  const auto size = static_cast<size_t>(bytes.count());
  EBB_CHECK(madvise(address, size, MADV_DONTNEED) == 0);
  EBB_CHECK(mprotect(address, size, PROT_NONE) == 0);
  return absl::OkStatus();
}

absl::StatusOr<char*> DoubleApi::AllocateHost(Bytes bytes) {
  MutexLock lock(&mu_);
  EBB_RETURN_IF_ERROR(OutsideCapture("cudaHostAlloc"));
  ++calls_.allocations;
  if (Fails(Fault::kHostMemory)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no ", FormatBytes(bytes), " of page-locked memory"));
  }
  EBB_ASSIGN_OR_RETURN(char* const base, MapAddresses(bytes, PROT_READ | PROT_WRITE));
  pinned_.emplace(base, bytes);
  return base;
}

void DoubleApi::FreeHost(char* address) {
  MutexLock lock(&mu_);
  ++calls_.allocations;
  const auto it = pinned_.find(address);
  EBB_CHECK(it != pinned_.end());
  EBB_CHECK(munmap(address, static_cast<size_t>(it->second.count())) == 0);
  pinned_.erase(it);
}

bool DoubleApi::IsPinned(const void* address) const {
  return Holds(reserved_, address) || Holds(pinned_, address);
}

}  // namespace ebb::testing
