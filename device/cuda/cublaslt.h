// The only door to cuBLASLt, whose library is opened when it is first needed. Thread-safe.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "device/cuda/library.h"

namespace ebb::device::cuda {

class CublasLt {
 public:
  // For the GPU that is current. Unavailable when the library is not to be had.
  static absl::StatusOr<std::shared_ptr<CublasLt>> Open();
  virtual ~CublasLt() = default;
  // The first algorithm by cuBLASLt's own ranking that adds in a fixed order and needs no more than
  // a fixed workspace.
  virtual absl::StatusOr<std::shared_ptr<const Product>> Make(const ProductSpec& spec) = 0;
};

}  // namespace ebb::device::cuda
