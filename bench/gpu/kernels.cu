#include "bench/gpu/measure.h"

namespace ebb::bench::gpu {
namespace {

constexpr int kThreads = 256;

__global__ void Empty() {}

__global__ void Scale(float* x, size_t elements) {
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements;
       i += stride) {
    x[i] = x[i] * 0.999f + 1.0f;
  }
}

__global__ void Fma(float* x, int iterations) {
  // Four chains, so that latency is hidden.
  float a = static_cast<float>(threadIdx.x), b = a + 1, c = a + 2, d = a + 3;
  for (int i = 0; i < iterations; ++i) {
    a = a * 0.999f + 0.5f;
    b = b * 0.999f + 0.5f;
    c = c * 0.999f + 0.5f;
    d = d * 0.999f + 0.5f;
  }
  if (a + b + c + d == 0.125f) x[0] = a;  // never, but the compiler cannot know
}

__global__ void Wait(long long nanoseconds) {
  long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}

__global__ void Touch(char* x, size_t bytes) {
  constexpr size_t kPage = 4096;
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x * kPage;
  for (size_t i = (static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kPage; i < bytes;
       i += stride) {
    x[i] = static_cast<char>(x[i] + 1);
  }
}

__global__ void Noise(unsigned short* x, size_t elements) {
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements;
       i += stride) {
    unsigned h = static_cast<unsigned>(i) * 2654435761u;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    const float value = static_cast<float>(h >> 8) / 8388608.0f - 1.0f;
    x[i] = static_cast<unsigned short>(__float_as_uint(value) >> 16);  // bf16, cut
  }
}

}  // namespace

void LaunchEmpty(cudaStream_t stream) {
  Empty<<<1, 32, 0, stream>>>();
  EBB_CUDA_CHECK(cudaGetLastError());
}
void LaunchScale(cudaStream_t stream, int blocks, float* x, size_t elements) {
  Scale<<<blocks, kThreads, 0, stream>>>(x, elements);
  EBB_CUDA_CHECK(cudaGetLastError());
}
void LaunchFma(cudaStream_t stream, int blocks, float* x, int iterations) {
  Fma<<<blocks, kThreads, 0, stream>>>(x, iterations);
  EBB_CUDA_CHECK(cudaGetLastError());
}
void LaunchWait(cudaStream_t stream, long long nanoseconds) {
  Wait<<<1, 1, 0, stream>>>(nanoseconds);
  EBB_CUDA_CHECK(cudaGetLastError());
}
void LaunchTouch(cudaStream_t stream, char* x, size_t bytes) {
  Touch<<<Multiprocessors() * 4, kThreads, 0, stream>>>(x, bytes);
  EBB_CUDA_CHECK(cudaGetLastError());
}
void LaunchNoise(cudaStream_t stream, unsigned short* x, size_t elements) {
  Noise<<<Multiprocessors() * 8, kThreads, 0, stream>>>(x, elements);
  EBB_CUDA_CHECK(cudaGetLastError());
}

int Multiprocessors() {
  int count = 0;
  EBB_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0));
  return count;
}

double GatedMicros(const std::function<void(cudaStream_t, cudaStream_t)>& enqueue) {
  constexpr long long kGate = 5'000'000;  // nanoseconds
  const Stream gate, first, second;
  const Event begin, first_end, second_end, end;
  LaunchWait(gate, kGate);
  EBB_CUDA_CHECK(cudaEventRecord(begin, gate));
  for (cudaStream_t stream : {cudaStream_t(first), cudaStream_t(second)}) {
    EBB_CUDA_CHECK(cudaStreamWaitEvent(stream, begin, 0));
  }
  enqueue(first, second);
  EBB_CUDA_CHECK(cudaEventRecord(first_end, first));
  EBB_CUDA_CHECK(cudaEventRecord(second_end, second));
  EBB_CUDA_CHECK(cudaStreamWaitEvent(gate, first_end, 0));
  EBB_CUDA_CHECK(cudaStreamWaitEvent(gate, second_end, 0));
  EBB_CUDA_CHECK(cudaEventRecord(end, gate));
  gate.Synchronize();
  float milliseconds = 0;
  EBB_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
  return static_cast<double>(milliseconds) * 1e3;
}

}  // namespace ebb::bench::gpu
