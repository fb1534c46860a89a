// What the sections of gpu_measure share: checked calls, figures as they become known, streams, and
// a gate behind which work is lined up before any of it starts. One thread.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

namespace ebb::bench::gpu {

// Ends the program: after a failed call no further figure would mean anything.
[[noreturn]] inline void Die(const char* file, int line, const char* call, const char* error) {
  std::fprintf(stderr, "gpu_measure: %s:%d: %s: %s\n", file, line, call, error);
  std::exit(1);
}

#define EBB_CUDA_CHECK(call)                                                            \
  do {                                                                                  \
    const cudaError_t ebb_error = (call);                                               \
    if (ebb_error != cudaSuccess) {                                                     \
      ::ebb::bench::gpu::Die(__FILE__, __LINE__, #call, cudaGetErrorString(ebb_error)); \
    }                                                                                   \
  } while (false)

// One figure as a line of JSON, at once.
inline void Say(const std::string& name, double value) {
  std::printf("{\"%s\": %.6g}\n", name.c_str(), value);
  std::fflush(stdout);
}
// What cannot be measured on this machine, and why.
inline void SayAbsent(const std::string& name, const std::string& why) {
  std::printf("{\"%s\": {\"absent\": \"%s\"}}\n", name.c_str(), why.c_str());
  std::fflush(stdout);
}

// Microseconds of the host that `work` takes.
inline double HostMicros(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

class Stream {
 public:
  Stream() { EBB_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }
  void Synchronize() const { EBB_CUDA_CHECK(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() { EBB_CUDA_CHECK(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// `bytes` of the card's memory, filled with zeros; of the host's, page-locked.
class DeviceBytes {
 public:
  explicit DeviceBytes(size_t bytes) {
    EBB_CUDA_CHECK(cudaMalloc(&data_, bytes));
    EBB_CUDA_CHECK(cudaMemset(data_, 0, bytes));
    EBB_CUDA_CHECK(cudaDeviceSynchronize());
  }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};
class PinnedBytes {
 public:
  explicit PinnedBytes(size_t bytes) { EBB_CUDA_CHECK(cudaMallocHost(&data_, bytes)); }
  ~PinnedBytes() { cudaFreeHost(data_); }
  PinnedBytes(const PinnedBytes&) = delete;
  PinnedBytes& operator=(const PinnedBytes&) = delete;
  void* get() const { return data_; }

 private:
  void* data_ = nullptr;
};

// The card's time, in microseconds, from the moment at which both streams may start to the end of
// what is enqueued on them. The work is enqueued while the card waits behind a gate of a few
// milliseconds, so that the host's launches are not what is measured. `second` may be empty.
double GatedMicros(const std::function<void(cudaStream_t, cudaStream_t)>& enqueue);

int Multiprocessors();

// Kernels of known kinds (kernels.cu).
void LaunchEmpty(cudaStream_t stream);
void LaunchScale(cudaStream_t stream, int blocks, float* x, size_t elements);  // reads and writes
void LaunchFma(cudaStream_t stream, int blocks, float* x, int iterations);     // arithmetic alone
void LaunchWait(cudaStream_t stream, long long nanoseconds);                   // one thread
void LaunchTouch(cudaStream_t stream, char* x, size_t bytes);                  // each 4 KiB page
void LaunchNoise(cudaStream_t stream, unsigned short* x, size_t elements);     // bf16 in [-1, 1)

// Sections: each prints its figures.
void MeasureCalls();
void MeasureOverlap();
void MeasureCopies();
void MeasureMapping();
void MeasureFaults();

}  // namespace ebb::bench::gpu
