// What is built where the headers of cudnn-frontend are not: it says so.
#include "device/cuda/cudnn.h"

namespace ebb::device::cuda {
namespace {

absl::Status Absent() {
  return absl::UnavailableError(
      "cuDNN: this version was built without it, since the headers of nvidia-cudnn-frontend were "
      "not there (scripts/setup --cuda)");
}

}  // namespace

absl::StatusOr<std::shared_ptr<Cudnn>> Cudnn::Open(const Properties&) { return Absent(); }
absl::StatusOr<std::shared_ptr<Cudnn>> Cudnn::OpenOffline(const std::string&) { return Absent(); }
absl::StatusOr<int64_t> CudnnVersion() { return Absent(); }
absl::StatusOr<std::string> CudnnRecord(int) { return Absent(); }

}  // namespace ebb::device::cuda
