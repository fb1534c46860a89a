// A matrix product of cuBLASLt, opened when the program runs: n x n, bf16, sums in float. One
// thread.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <string>

namespace ebb::bench::gpu {

class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual void Launch(cudaStream_t stream) = 0;
  virtual double flops() const = 0;
};

// Null, and `why`, where the library is not to be had.
std::unique_ptr<Gemm> OpenGemm(int n, std::string* why);

}  // namespace ebb::bench::gpu
