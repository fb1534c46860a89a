// The only door to oneDNN (2.x and 3.x): convolutions and a matrix product on plain pointers.
// Primitives keep no state between runs and may run on many threads at once; their scratch memory
// is the caller's. The number of OpenMP threads is that of the creating thread
// (omp_set_num_threads) and is the same at every run, because results depend on it.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/units.h"
#include "device/common/conv_spec.h"

namespace ebb::device::cpu {

class Convolution {
 public:
  virtual ~Convolution() = default;
  // kForward: a = x, b = w; kGradInput: a = dy, b = w; kGradWeight: a = dy, b = x.
  virtual absl::Status Run(const float* a, const float* b, const float* bias, float* out,
                           void* workspace) const = 0;
  virtual Bytes workspace() const = 0;
};

// Unimplemented when oneDNN has no such convolution.
absl::StatusOr<std::shared_ptr<const Convolution>> MakeConvolution(const ConvSpec& spec);

// Row-major c [m,n] = alpha a' b' + beta c, with a' [m,k] stored as [k,m] when transposed, and b'
// alike. Leading dimensions are those of the stored matrices. m, n, k > 0. oneDNN takes its packing
// buffers from the heap: a bounded amount a thread, at most a few MiB.
struct GemmSpec {
  bool trans_a = false, trans_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
  int threads = 1;
};
absl::Status Sgemm(const GemmSpec& spec, float alpha, const float* a, const float* b, float beta,
                   float* c);

// The calling thread's number of OpenMP threads, and a scope that changes it.
int OmpThreads();
class ScopedOmpThreads {
 public:
  explicit ScopedOmpThreads(int threads);
  ~ScopedOmpThreads();
  ScopedOmpThreads(const ScopedOmpThreads&) = delete;
  ScopedOmpThreads& operator=(const ScopedOmpThreads&) = delete;

 private:
  int before_;
};

}  // namespace ebb::device::cpu
