#include "device/cuda/nvml.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "device/cuda/dynamic_library.h"

namespace ebb::device::cuda {
namespace {

// Of nvml.h, which comes with the driver's packages and is often not installed.
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;  // NOLINT(google-runtime-int)
};
constexpr unsigned kMemoryV2 = static_cast<unsigned>(sizeof(MemoryV2)) | (2u << 24);
using NvmlGpu = struct nvmlDevice_st*;

struct Calls {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*by_pci)(const char*, NvmlGpu*) = nullptr;
  int (*memory)(NvmlGpu, MemoryV2*) = nullptr;
};

absl::Status StatusOf(int result, const char* call) {
  if (result == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("NVML: ", call, " failed with error ", result));
}

class OpenNvml final : public Nvml {
 public:
  OpenNvml(const Calls& calls, NvmlGpu gpu) : calls_(calls), gpu_(gpu) {}
  ~OpenNvml() override { static_cast<void>(calls_.shutdown()); }

  absl::StatusOr<Bytes> Used() const override {
    MemoryV2 memory = {};
    memory.version = kMemoryV2;
    EBB_RETURN_IF_ERROR(StatusOf(calls_.memory(gpu_, &memory), "nvmlDeviceGetMemoryInfo_v2"));
    return Bytes(static_cast<int64_t>(memory.used));
  }

 private:
  const Calls calls_;
  const NvmlGpu gpu_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Nvml>> Nvml::Open(const std::string& pci_bus_id) {
  EBB_ASSIGN_OR_RETURN(const DynamicLibrary library, DynamicLibrary::Open("libnvidia-ml.so.1"));
  Calls calls;
  EBB_RETURN_IF_ERROR(library.Find("nvmlInit_v2", &calls.init));
  EBB_RETURN_IF_ERROR(library.Find("nvmlShutdown", &calls.shutdown));
  EBB_RETURN_IF_ERROR(library.Find("nvmlDeviceGetHandleByPciBusId_v2", &calls.by_pci));
  EBB_RETURN_IF_ERROR(library.Find("nvmlDeviceGetMemoryInfo_v2", &calls.memory));
  EBB_RETURN_IF_ERROR(StatusOf(calls.init(), "nvmlInit_v2"));
  NvmlGpu gpu = nullptr;
  if (absl::Status status =
          StatusOf(calls.by_pci(pci_bus_id.c_str(), &gpu), "nvmlDeviceGetHandleByPciBusId_v2");
      !status.ok()) {
    static_cast<void>(calls.shutdown());
    return status;
  }
  return std::unique_ptr<Nvml>(std::make_unique<OpenNvml>(calls, gpu));
}

}  // namespace ebb::device::cuda
