// Memory put behind addresses and taken away again: what the calls take, and whether they hold up
// what runs.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <algorithm>
#include <vector>

#include "bench/gpu/measure.h"

namespace ebb::bench::gpu {
namespace {

constexpr size_t kGranules = 256;

void Check(CUresult result, int line, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const std::string code = "CUresult " + std::to_string(static_cast<int>(result));
  Die(__FILE__, line, call, code.c_str());
}
#define EBB_DRIVER_CHECK(call) Check((call), __LINE__, #call)

// The driver's function of this name as CUDA 10.2 had it.
template <class Function>
Function Driver(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  EBB_CUDA_CHECK(
      cudaGetDriverEntryPointByVersion(name, &function, 10020, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess) Die(__FILE__, __LINE__, name, "the driver has no such");
  return reinterpret_cast<Function>(function);
}

struct Calls {
  PFN_cuMemGetAllocationGranularity_v10020 granularity =
      Driver<PFN_cuMemGetAllocationGranularity_v10020>("cuMemGetAllocationGranularity");
  PFN_cuMemAddressReserve_v10020 reserve =
      Driver<PFN_cuMemAddressReserve_v10020>("cuMemAddressReserve");
  PFN_cuMemAddressFree_v10020 unreserve = Driver<PFN_cuMemAddressFree_v10020>("cuMemAddressFree");
  PFN_cuMemCreate_v10020 create = Driver<PFN_cuMemCreate_v10020>("cuMemCreate");
  PFN_cuMemRelease_v10020 release = Driver<PFN_cuMemRelease_v10020>("cuMemRelease");
  PFN_cuMemMap_v10020 map = Driver<PFN_cuMemMap_v10020>("cuMemMap");
  PFN_cuMemUnmap_v10020 unmap = Driver<PFN_cuMemUnmap_v10020>("cuMemUnmap");
  PFN_cuMemSetAccess_v10020 access = Driver<PFN_cuMemSetAccess_v10020>("cuMemSetAccess");
};

// Granules of the card's memory, and addresses for all of them.
class Granules {
 public:
  Granules() {
    prop_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop_.location.id = 0;
    access_.location = prop_.location;
    access_.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EBB_DRIVER_CHECK(calls_.granularity(&size_, &prop_, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    EBB_DRIVER_CHECK(calls_.reserve(&base_, size_ * kGranules, 0, 0, 0));
  }
  size_t size() const { return size_; }
  CUdeviceptr at(size_t i) const { return base_ + i * size_; }

  void Create() {
    for (size_t i = 0; i < kGranules; ++i) {
      EBB_DRIVER_CHECK(calls_.create(&handles_.emplace_back(), size_, &prop_, 0));
    }
  }
  void Map(size_t i) { EBB_DRIVER_CHECK(calls_.map(at(i), size_, 0, handles_[i], 0)); }
  void Unmap(size_t i, size_t granules) { EBB_DRIVER_CHECK(calls_.unmap(at(i), size_ * granules)); }
  void SetAccess(size_t i, size_t granules) {
    EBB_DRIVER_CHECK(calls_.access(at(i), size_ * granules, &access_, 1));
  }
  void Release() {
    for (const CUmemGenericAllocationHandle handle : handles_) {
      EBB_DRIVER_CHECK(calls_.release(handle));
    }
    handles_.clear();
    EBB_DRIVER_CHECK(calls_.unreserve(base_, size_ * kGranules));
  }

 private:
  const Calls calls_;
  CUmemAllocationProp prop_ = {};
  CUmemAccessDesc access_ = {};
  size_t size_ = 0;
  CUdeviceptr base_ = 0;
  std::vector<CUmemGenericAllocationHandle> handles_;
};

double EachMicros(const std::function<void(size_t)>& call) {
  return HostMicros([&] {
           for (size_t i = 0; i < kGranules; ++i) call(i);
         }) /
         kGranules;
}

// A train of kernels of some 20 ms on the card, while the host does `beside` once.
double TrainMicros(float* x, const std::function<void()>& beside) {
  const Stream stream;
  const Event begin, end;
  const int blocks = Multiprocessors();
  LaunchFma(stream, blocks, x, 1000);
  stream.Synchronize();
  EBB_CUDA_CHECK(cudaEventRecord(begin, stream));
  for (int i = 0; i < 200; ++i) LaunchFma(stream, blocks, x, 40'000);
  EBB_CUDA_CHECK(cudaEventRecord(end, stream));
  beside();
  stream.Synchronize();
  float milliseconds = 0;
  EBB_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
  return static_cast<double>(milliseconds) * 1e3;
}

}  // namespace

void MeasureMapping() {
  const DeviceBytes x(1024);
  Granules granules;
  Say("granule_bytes", static_cast<double>(granules.size()));
  Say("create_us", HostMicros([&] { granules.Create(); }) / kGranules);
  // One granule at a time, and a stretch of them by one call where there is one.
  Say("map_us", EachMicros([&](size_t i) { granules.Map(i); }));
  Say("access_us", EachMicros([&](size_t i) { granules.SetAccess(i, 1); }));
  Say("unmap_us", EachMicros([&](size_t i) { granules.Unmap(i, 1); }));
  for (size_t i = 0; i < kGranules; ++i) granules.Map(i);
  Say("access_of_all_us", HostMicros([&] { granules.SetAccess(0, kGranules); }));
  Say("unmap_of_all_us", HostMicros([&] { granules.Unmap(0, kGranules); }));
  // The same while kernels run: do the calls wait for them, and do they wait for the calls?
  double calls = 0;
  const auto round = [&] {
    calls = HostMicros([&] {
      for (size_t i = 0; i < 64; ++i) {
        granules.Map(i);
        granules.SetAccess(i, 1);
      }
      for (size_t i = 0; i < 64; ++i) granules.Unmap(i, 1);
    });
  };
  round();
  Say("round_of_64_idle_us", calls);
  const double alone = TrainMicros(x.as<float>(), [] {});
  const double beside = TrainMicros(x.as<float>(), round);
  Say("kernels_alone_us", alone);
  Say("round_of_64_beside_kernels_us", calls);
  Say("kernels_beside_calls_us", beside);
  granules.Release();
}

}  // namespace ebb::bench::gpu
