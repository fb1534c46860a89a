// Devices by name.
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "device/cpu/cpu_device.h"
#include "device/cuda/cuda_device.h"
#include "device/device.h"
#include "device/ref/ref_device.h"
#include "device/sim/sim_device.h"

namespace ebb::device {

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const std::string& name,
                                                   const DeviceOptions& options) {
  if (options.threads_per_stream < 0) {
    return absl::InvalidArgumentError(absl::StrCat("device \"", name, "\": threads_per_stream is ",
                                                   options.threads_per_stream,
                                                   "; it must be 0 (the default) or more"));
  }
  if (name == "cpu") return OpenCpu(options);
  if (name == "ref") return OpenRef(options);
  if (absl::string_view profile = name; absl::ConsumePrefix(&profile, "sim:")) {
    return OpenSim(std::string(profile), options,
                   [](const std::string& like) { return OpenDevice(like, {}); });
  }
  absl::string_view gpu = name;
  const CudaGraphs graphs =
      absl::ConsumeSuffix(&gpu, "+nographs") ? CudaGraphs::kAvoid : CudaGraphs::kUse;
  if (gpu == "cuda") return OpenCuda(0, options, graphs);
  if (int ordinal = 0;
      absl::ConsumePrefix(&gpu, "cuda:") && absl::SimpleAtoi(gpu, &ordinal) && ordinal >= 0) {
    return OpenCuda(ordinal, options, graphs);
  }
  return absl::NotFoundError(absl::StrCat(
      "there is no device \"", name, "\"; there are \"cpu\", \"ref\", \"sim:PROFILE\" (",
      absl::StrJoin(BuiltinSimProfiles(), ", "),
      ", or a YAML file) and, in builds with CUDA, \"cuda\" and \"cuda:N\", each also with "
      "\"+nographs\" behind it"));
}

}  // namespace ebb::device
