// Copies between the host and the card, and managed memory that is moved by page faults.
#include <algorithm>
#include <cstring>
#include <string>

#include "bench/gpu/measure.h"

namespace ebb::bench::gpu {
namespace {

constexpr size_t kBytes = size_t{256} << 20;
constexpr size_t kFloats = size_t{64} << 20;

double Rate(size_t bytes, double micros) { return static_cast<double>(bytes) / micros / 1e3; }

void CopyOn(cudaStream_t stream, void* to, const void* from, size_t bytes) {
  EBB_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
}

double Gigabytes(size_t total, const std::function<void(cudaStream_t, cudaStream_t)>& enqueue) {
  GatedMicros(enqueue);
  return Rate(total, std::min(GatedMicros(enqueue), GatedMicros(enqueue)));
}

// Both copies and a kernel of a kind that runs as long: what each becomes beside the other.
void UnderLoad(const std::string& name, void* device, const void* host,
               const std::function<void(cudaStream_t)>& kernel) {
  const auto copy = [&](cudaStream_t stream, int times) {
    for (int i = 0; i < times; ++i) CopyOn(stream, device, host, kBytes / 8);
  };
  const auto load = [&](cudaStream_t stream, int times) {
    for (int i = 0; i < times; ++i) kernel(stream);
  };
  constexpr int kCopies = 8;
  const auto alone = [&](int times) {
    return GatedMicros([&](cudaStream_t a, cudaStream_t) { load(a, times); });
  };
  const double copies = GatedMicros([&](cudaStream_t a, cudaStream_t) { copy(a, kCopies); });
  alone(3);
  const int times = std::clamp(static_cast<int>(copies / (alone(10) / 10)), 1, 400);
  const double kernels = alone(times);
  const double both = GatedMicros([&](cudaStream_t a, cudaStream_t b) {
    load(b, times);
    copy(a, kCopies);
  });
  Say("copy_beside_" + name + "/together_over_longer", both / std::max(copies, kernels));
}

}  // namespace

void MeasureCopies() {
  const PinnedBytes host_in(kBytes), host_out(kBytes);
  std::memset(host_in.get(), 1, kBytes);
  std::memset(host_out.get(), 2, kBytes);
  const DeviceBytes in(kBytes), out(kBytes), work(kFloats * 4);
  const auto to_card = [&](cudaStream_t stream) {
    CopyOn(stream, in.as<void>(), host_in.get(), kBytes);
  };
  const auto from_card = [&](cudaStream_t stream) {
    CopyOn(stream, host_out.get(), out.as<void>(), kBytes);
  };
  Say("pinned_to_card_GB_s", Gigabytes(kBytes, [&](cudaStream_t a, cudaStream_t) { to_card(a); }));
  Say("pinned_from_card_GB_s",
      Gigabytes(kBytes, [&](cudaStream_t a, cudaStream_t) { from_card(a); }));
  Say("pinned_both_ways_GB_s", Gigabytes(2 * kBytes, [&](cudaStream_t a, cudaStream_t b) {
        to_card(a);
        from_card(b);
      }));
  Say("two_to_card_GB_s", Gigabytes(2 * kBytes, [&](cudaStream_t a, cudaStream_t b) {
        to_card(a);
        CopyOn(b, out.as<void>(), host_out.get(), kBytes);
      }));
  Say("within_card_GB_s", Gigabytes(2 * kBytes, [&](cudaStream_t a, cudaStream_t) {  // r and w
        CopyOn(a, out.as<void>(), in.as<void>(), kBytes);
      }));
  for (const size_t bytes : {size_t{4} << 10, size_t{64} << 10, size_t{1} << 20}) {
    constexpr int kTimes = 100;
    Say("pinned_to_card_us/" + std::to_string(bytes),
        GatedMicros([&](cudaStream_t a, cudaStream_t) {
          for (int i = 0; i < kTimes; ++i) CopyOn(a, in.as<void>(), host_in.get(), bytes);
        }) / kTimes);
  }
  const int sms = Multiprocessors();
  UnderLoad("compute", in.as<void>(), host_in.get(),
            [&](cudaStream_t s) { LaunchFma(s, sms * 8, work.as<float>(), 4000); });
  UnderLoad("bandwidth", in.as<void>(), host_in.get(),
            [&](cudaStream_t s) { LaunchScale(s, sms * 8, work.as<float>(), kFloats); });
}

void MeasureFaults() {
  int concurrent = 0;
  EBB_CUDA_CHECK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
  if (concurrent == 0) {
    SayAbsent("faults", "this machine moves managed memory as a whole, not by page faults");
    return;
  }
  size_t free = 0, total = 0;
  EBB_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  // Far below what is free: a card whose managed memory is oversubscribed can hang.
  const size_t bytes = std::min(size_t{2} << 30, free / 4) / 4096 * 4096;
  char* memory = nullptr;
  EBB_CUDA_CHECK(cudaMallocManaged(&memory, bytes));
  const Stream first, second;
  const auto to_host = [&] {
    return HostMicros([&] {
      for (size_t i = 0; i < bytes; i += 4096) memory[i] = static_cast<char>(memory[i] + 1);
    });
  };
  const auto on_card = [&](size_t offset, size_t length, const Stream& stream) {
    LaunchTouch(stream, memory + offset, length);
  };
  Say("managed_bytes", static_cast<double>(bytes));
  std::memset(memory, 1, bytes);
  Say("faults_to_card_GB_s", Rate(bytes, HostMicros([&] {
                                    on_card(0, bytes, first);
                                    first.Synchronize();
                                  })));
  Say("resident_touch_us", HostMicros([&] {
        on_card(0, bytes, first);
        first.Synchronize();
      }));
  Say("faults_to_host_GB_s", Rate(bytes, to_host()));
  Say("faults_of_two_streams_GB_s", Rate(bytes, HostMicros([&] {
                                           on_card(0, bytes / 2, first);
                                           on_card(bytes / 2, bytes - bytes / 2, second);
                                           first.Synchronize();
                                           second.Synchronize();
                                         })));
  to_host();
#if CUDART_VERSION >= 13000
  const auto prefetch = [&] {
    cudaMemLocation card = {};
    card.type = cudaMemLocationTypeDevice;
    EBB_CUDA_CHECK(cudaMemPrefetchAsync(memory, bytes, card, 0, first));
    first.Synchronize();
  };
#else
  const auto prefetch = [&] {
    EBB_CUDA_CHECK(cudaMemPrefetchAsync(memory, bytes, 0, first));
    first.Synchronize();
  };
#endif
  Say("prefetch_to_card_GB_s", Rate(bytes, HostMicros(prefetch)));
  EBB_CUDA_CHECK(cudaFree(memory));
}

}  // namespace ebb::bench::gpu
