// Address ranges are mapped without access; committing grants access (the kernel supplies zero
// pages on first touch), decommitting returns the pages and revokes access.
#include "device/host/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace ebb::device {
namespace {

absl::Status CheckRange(Bytes offset, Bytes bytes, Bytes granule) {
  if (offset < Bytes(0) || bytes < Bytes(0) || offset.count() % granule.count() != 0 ||
      bytes.count() % granule.count() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("host memory: the range at ", offset.count(), " of ", bytes.count(),
                     " bytes is not made of granules of ", granule.count(), " bytes"));
  }
  return absl::OkStatus();
}

absl::Status FromErrno(const char* call, Bytes bytes) {
  const std::string message = absl::StrCat("host memory: ", call, " of ", FormatBytes(bytes),
                                           " failed: ", std::strerror(errno));
  if (errno == ENOMEM || errno == EAGAIN) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

}  // namespace

absl::StatusOr<char*> HostGranules::Reserve(Bytes bytes) {
  if (bytes <= Bytes(0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("host memory: cannot reserve ", bytes.count(), " bytes of addresses"));
  }
  void* base = mmap(nullptr, static_cast<size_t>(bytes.count()), PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return FromErrno("mmap", bytes);
  return static_cast<char*>(base);
}

void HostGranules::Unreserve(char* base, Bytes bytes) {
  EBB_CHECK(munmap(base, static_cast<size_t>(bytes.count())) == 0);
}

absl::Status HostGranules::Commit(char* base, Bytes offset, Bytes bytes) {
  if (absl::Status status = CheckRange(offset, bytes, granule()); !status.ok()) return status;
  if (bytes == Bytes(0)) return absl::OkStatus();
  if (mprotect(base + offset.count(), static_cast<size_t>(bytes.count()), PROT_READ | PROT_WRITE) !=
      0) {
    return FromErrno("mprotect", bytes);
  }
  return absl::OkStatus();
}

void HostGranules::Decommit(char* base, Bytes offset, Bytes bytes) {
  EBB_CHECK(CheckRange(offset, bytes, granule()).ok());
  if (bytes == Bytes(0)) return;
  const auto size = static_cast<size_t>(bytes.count());
  EBB_CHECK(madvise(base + offset.count(), size, MADV_DONTNEED) == 0);
  EBB_CHECK(mprotect(base + offset.count(), size, PROT_NONE) == 0);
}

absl::StatusOr<char*> AllocateHostMemory(Bytes bytes, HostBacking backing) {
  HostGranules granules;
  bytes = AlignUp(std::max(bytes, Bytes(1)), granules.granule());
  absl::StatusOr<char*> base = granules.Reserve(bytes);
  if (!base.ok() || backing == HostBacking::kAddresses) return base;
  absl::Status status = granules.Commit(*base, Bytes(0), bytes);
  if (status.ok()) return base;
  granules.Unreserve(*base, bytes);
  return status;
}

void FreeHostMemory(char* memory, Bytes bytes) {
  HostGranules granules;
  granules.Unreserve(memory, AlignUp(std::max(bytes, Bytes(1)), granules.granule()));
}

Bytes UsableHostMemory() {
  int64_t memory = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::string text;
    int64_t limit = 0;
    if (std::ifstream(path) >> text && absl::SimpleAtoi(text, &limit) && limit > 0) {
      memory = std::min(memory, limit);
    }
  }
  return Bytes(memory);
}

}  // namespace ebb::device
