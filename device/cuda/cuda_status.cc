#include "device/cuda/cuda_status.h"

#include "absl/strings/str_cat.h"
#include "device/cuda/launch.h"

namespace ebb::device::cuda {
namespace {

// Errors that older toolkits have no name for: cudaErrorContained, cudaErrorTensorMemoryLeak.
constexpr int kContained = 226, kTensorMemoryLeak = 721;

absl::StatusCode CodeOf(cudaError_t error) {
  if (error == kContained || error == kTensorMemoryLeak) return absl::StatusCode::kDataLoss;
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorInitializationError:
    case cudaErrorCudartUnloading:
    case cudaErrorStubLibrary:
    case cudaErrorInsufficientDriver:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorStartupFailure:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsServerNotReady:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return absl::StatusCode::kUnavailable;
    // After these the context is lost.
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorExternalDevice:
      return absl::StatusCode::kDataLoss;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status StatusOf(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  static_cast<void>(cudaGetLastError());
  return absl::Status(CodeOf(error), absl::StrCat("CUDA: ", call, ": ", cudaGetErrorString(error),
                                                  " (", cudaGetErrorName(error), ")"));
}

// The runtime's errors of this kind have the numbers of the driver's.
absl::Status StatusOf(CUresult result, const char* call) {
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return StatusOf(cudaErrorMemoryAllocation, call);
  return StatusOf(static_cast<cudaError_t>(result), call);
}

absl::Status LaunchStatus(const char* what) { return StatusOf(cudaGetLastError(), what); }

}  // namespace ebb::device::cuda
