// The memory of a GPU as granules: addresses that never move, with memory behind them on demand.
// Thread-safe.
#pragma once

#include <memory>

#include "device/cuda/api.h"
#include "memory/granules.h"

namespace ebb::device::cuda {

class CudaGranules final : public memory::GranuleSource {
 public:
  explicit CudaGranules(std::shared_ptr<Api> api) : api_(std::move(api)) {}

  Bytes granule() const override { return api_->granule(); }
  absl::StatusOr<char*> Reserve(Bytes bytes) override;
  void Unreserve(char* base, Bytes bytes) override {
    api_->Unreserve(base, AlignUp(bytes, granule()));
  }
  absl::Status Commit(char* base, Bytes offset, Bytes bytes) override;
  void Decommit(char* base, Bytes offset, Bytes bytes) override;

 private:
  absl::Status CheckRange(Bytes offset, Bytes bytes) const;

  const std::shared_ptr<Api> api_;
};

}  // namespace ebb::device::cuda
