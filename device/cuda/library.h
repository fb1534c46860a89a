// What the CUDA device takes from NVIDIA's libraries: convolutions and matrix products, by plain
// specs. Behind it are cuDNN and cuBLASLt (cuda_library.cc), and in the test double the host's
// library, so that shapes, layouts and broadcasting of the kernels around it are tested without a
// GPU. Which algorithm, and with it every bit, depends on the spec and on the kind of GPU alone.
// Thread-safe; what is enqueued on one stream comes from one thread at a time.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "device/common/conv_spec.h"
#include "device/cuda/kernel.h"

namespace ebb::device::cuda {

// Row-major c [m,n] = alpha a' b' + beta c, with a' [m,k] stored as [k,m] when transposed, and b'
// alike; for `batch` matrices, `stride` elements apart (0: the same one). No dimension is 0.
// a, b, bias and c are stored as `precision` says.
struct ProductSpec {
  Precision precision = Precision::kF32;
  bool trans_a = false, trans_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
  int64_t batch = 1;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  bool bias = false;    // then adds `bias` [n] to every row of c
  int alignment = 256;  // of the operands, in bytes: a power of two from an element's size to 256
};

struct ProductArgs {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  void* c = nullptr;
  float alpha = 1;
  float beta = 0;  // c is not read when it is 0
  void* workspace = nullptr;
};

class Product {
 public:
  virtual ~Product() = default;
  virtual Bytes workspace() const = 0;
  virtual absl::Status Enqueue(const Launch& at, const ProductArgs& args) const = 0;
};

class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual Bytes workspace() const = 0;
  // kForward: a = x, b = w, out = y; kGradInput: dy, w, dx; kGradWeight: dy, x, dw. In
  // channels-last order w and dw are so too (M, K, C / groups).
  virtual absl::Status Enqueue(const Launch& at, const void* a, const void* b, void* out,
                               void* workspace) const = 0;
};

class Library {
 public:
  virtual ~Library() = default;
  virtual absl::StatusOr<std::shared_ptr<const Product>> MakeProduct(const ProductSpec& spec) = 0;
  // Bias is not its matter. Unimplemented when there is no deterministic algorithm.
  virtual absl::StatusOr<std::shared_ptr<const Convolution>> MakeConvolution(
      const ConvSpec& spec) = 0;
};

// Kernels made of a library's work and own loops, each family in a file of its name.
using LibraryKernelFactory = absl::StatusOr<CudaKernel> (*)(Library& library, const Graph& graph,
                                                            const Node& node);
struct LibraryKernelRow {
  absl::string_view op;
  LibraryKernelFactory make;
};
absl::Span<const LibraryKernelRow> ConvKernels();
absl::Span<const LibraryKernelRow> MatmulKernels();
absl::Span<const LibraryKernelRow> LstmKernels();
absl::Span<const LibraryKernelRow> GruKernels();
// Null when no library has a part in the op.
LibraryKernelFactory FindLibraryKernel(absl::string_view op);

}  // namespace ebb::device::cuda
