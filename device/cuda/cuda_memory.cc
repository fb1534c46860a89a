#include "device/cuda/cuda_memory.h"

#include <cudaTypedefs.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace ebb::device::cuda {

struct VirtualMemoryCalls {
  PFN_cuDeviceGet_v2000 get_gpu = nullptr;
  PFN_cuDeviceGetAttribute_v2000 attribute = nullptr;
  PFN_cuMemAddressReserve_v10020 reserve = nullptr;
  PFN_cuMemAddressFree_v10020 free = nullptr;
  PFN_cuMemCreate_v10020 create = nullptr;
  PFN_cuMemRelease_v10020 release = nullptr;
  PFN_cuMemMap_v10020 map = nullptr;
  PFN_cuMemUnmap_v10020 unmap = nullptr;
  PFN_cuMemSetAccess_v10020 set_access = nullptr;
  PFN_cuMemGetAllocationGranularity_v10020 granularity = nullptr;
};

namespace {

// Calls by the version in which the driver got them: 2.0, and virtual memory in 10.2.
constexpr unsigned kFirst = 2000, kSince = 10020;

template <class F>
absl::Status Find(const char* name, F* function, unsigned since = kSince) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  EBB_RETURN_IF_ERROR(StatusOf(
      cudaGetDriverEntryPointByVersion(name, &found, since, cudaEnableDefault, &result), name));
  if (result != cudaDriverEntryPointSuccess || found == nullptr) {
    return absl::UnavailableError(absl::StrCat("the NVIDIA driver has no ", name));
  }
  *function = reinterpret_cast<F>(found);
  return absl::OkStatus();
}

absl::Status FindAll(VirtualMemoryCalls* calls) {
  EBB_RETURN_IF_ERROR(Find("cuDeviceGet", &calls->get_gpu, kFirst));
  EBB_RETURN_IF_ERROR(Find("cuDeviceGetAttribute", &calls->attribute, kFirst));
  EBB_RETURN_IF_ERROR(Find("cuMemAddressReserve", &calls->reserve));
  EBB_RETURN_IF_ERROR(Find("cuMemAddressFree", &calls->free));
  EBB_RETURN_IF_ERROR(Find("cuMemCreate", &calls->create));
  EBB_RETURN_IF_ERROR(Find("cuMemRelease", &calls->release));
  EBB_RETURN_IF_ERROR(Find("cuMemMap", &calls->map));
  EBB_RETURN_IF_ERROR(Find("cuMemUnmap", &calls->unmap));
  EBB_RETURN_IF_ERROR(Find("cuMemSetAccess", &calls->set_access));
  return Find("cuMemGetAllocationGranularity", &calls->granularity);
}

absl::Status CheckSupport(const VirtualMemoryCalls& calls, int ordinal) {
  CUdevice gpu = 0;
  EBB_RETURN_IF_ERROR(StatusOf(calls.get_gpu(&gpu, ordinal), "cuDeviceGet"));
  int supported = 0;
  EBB_RETURN_IF_ERROR(StatusOf(
      calls.attribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, gpu),
      "cuDeviceGetAttribute"));
  if (supported != 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("GPU ", ordinal, " has no virtual memory, which the pool is made of"));
}

CUmemAllocationProp PlaceOf(int ordinal) {
  CUmemAllocationProp place = {};
  place.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  place.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  place.location.id = ordinal;
  return place;
}

CUdeviceptr ToDriver(char* address) { return reinterpret_cast<CUdeviceptr>(address); }
size_t Size(Bytes bytes) { return static_cast<size_t>(bytes.count()); }

}  // namespace

absl::StatusOr<std::unique_ptr<VirtualMemory>> VirtualMemory::Make(int ordinal) {
  auto calls = std::make_unique<VirtualMemoryCalls>();
  EBB_RETURN_IF_ERROR(FindAll(calls.get()));
  EBB_RETURN_IF_ERROR(CheckSupport(*calls, ordinal));
  const CUmemAllocationProp place = PlaceOf(ordinal);
  size_t granule = 0;
  EBB_RETURN_IF_ERROR(
      StatusOf(calls->granularity(&granule, &place, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
               "cuMemGetAllocationGranularity"));
  if (granule == 0) return absl::InternalError("CUDA: memory has granules of 0 bytes");
  return std::unique_ptr<VirtualMemory>(
      new VirtualMemory(std::move(calls), ordinal, Bytes(static_cast<int64_t>(granule))));
}

VirtualMemory::VirtualMemory(std::unique_ptr<const VirtualMemoryCalls> calls, int ordinal,
                             Bytes granule)
    : calls_(std::move(calls)), place_(PlaceOf(ordinal)), granule_(granule) {}

VirtualMemory::~VirtualMemory() {
  for (const CUmemGenericAllocationHandle memory : unmapped_) {
    static_cast<void>(calls_->release(memory));  // the process is about to end
  }
}

Bytes VirtualMemory::taken() const {
  MutexLock lock(&mu_);
  return granule_ * static_cast<int64_t>(mapped_.size() + unmapped_.size());
}

absl::StatusOr<char*> VirtualMemory::Reserve(Bytes bytes) {
  CUdeviceptr base = 0;
  EBB_RETURN_IF_ERROR(
      StatusOf(calls_->reserve(&base, Size(bytes), 0, 0, 0), "cuMemAddressReserve"));
  return reinterpret_cast<char*>(base);
}

absl::Status VirtualMemory::Unreserve(char* base, Bytes bytes) {
  return StatusOf(calls_->free(ToDriver(base), Size(bytes)), "cuMemAddressFree");
}

absl::Status VirtualMemory::MapGranule(char* address) {
  CUmemGenericAllocationHandle memory = 0;
  if (unmapped_.empty()) {
    EBB_RETURN_IF_ERROR(
        StatusOf(calls_->create(&memory, Size(granule_), &place_, 0), "cuMemCreate"));
    unmapped_.push_back(memory);
  }
  memory = unmapped_.back();
  EBB_RETURN_IF_ERROR(
      StatusOf(calls_->map(ToDriver(address), Size(granule_), 0, memory, 0), "cuMemMap"));
  unmapped_.pop_back();
  mapped_[address] = memory;
  return absl::OkStatus();
}

absl::Status VirtualMemory::UnmapGranule(char* address) {
  const auto found = mapped_.find(address);
  if (found == mapped_.end()) {
    return absl::InvalidArgumentError("CUDA: no memory is mapped where some is to be unmapped");
  }
  EBB_RETURN_IF_ERROR(StatusOf(calls_->unmap(ToDriver(address), Size(granule_)), "cuMemUnmap"));
  unmapped_.push_back(found->second);
  mapped_.erase(found);
  return absl::OkStatus();
}

absl::Status VirtualMemory::Map(char* address, Bytes bytes) {
  MutexLock lock(&mu_);
  Bytes done;
  absl::Status status;
  for (; done < bytes && status.ok(); done += granule_) {
    status = MapGranule(address + done.count());
  }
  if (status.ok()) {
    const CUmemAccessDesc access = {place_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    status =
        StatusOf(calls_->set_access(ToDriver(address), Size(bytes), &access, 1), "cuMemSetAccess");
  }
  if (status.ok()) return status;
  // All or nothing; what was taken from the driver is kept for the next time.
  for (Bytes at; at < done; at += granule_) {
    if (mapped_.contains(address + at.count())) {
      status.Update(UnmapGranule(address + at.count()));
    }
  }
  return status;
}

absl::Status VirtualMemory::Unmap(char* address, Bytes bytes) {
  MutexLock lock(&mu_);
  for (Bytes at; at < bytes; at += granule_) {
    EBB_RETURN_IF_ERROR(UnmapGranule(address + at.count()));
  }
  return absl::OkStatus();
}

}  // namespace ebb::device::cuda
