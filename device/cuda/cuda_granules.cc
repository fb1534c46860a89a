#include "device/cuda/cuda_granules.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/status.h"

namespace ebb::device::cuda {

absl::Status CudaGranules::CheckRange(Bytes offset, Bytes bytes) const {
  if (offset < Bytes(0) || bytes < Bytes(0) || offset.count() % granule().count() != 0 ||
      bytes.count() % granule().count() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("GPU memory: the range at ", offset.count(), " of ", bytes.count(),
                     " bytes is not made of granules of ", granule().count(), " bytes"));
  }
  return absl::OkStatus();
}

absl::StatusOr<char*> CudaGranules::Reserve(Bytes bytes) {
  if (bytes <= Bytes(0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("GPU memory: cannot reserve ", bytes.count(), " bytes of addresses"));
  }
  return api_->Reserve(AlignUp(bytes, granule()));
}

absl::Status CudaGranules::Commit(char* base, Bytes offset, Bytes bytes) {
  EBB_RETURN_IF_ERROR(CheckRange(offset, bytes));
  if (bytes == Bytes(0)) return absl::OkStatus();
  return Annotate(api_->Map(base + offset.count(), bytes), "GPU memory");
}

void CudaGranules::Decommit(char* base, Bytes offset, Bytes bytes) {
  EBB_CHECK(CheckRange(offset, bytes).ok());
  if (bytes == Bytes(0)) return;
  // A GPU that is lost gives nothing back before the process ends.
  if (absl::Status status = api_->Unmap(base + offset.count(), bytes); !status.ok()) {
    Log(LogLevel::kWarning, "GPU memory: %s is not given back: %s", FormatBytes(bytes),
        status.ToString());
  }
}

}  // namespace ebb::device::cuda
