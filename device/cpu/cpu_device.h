// The `cpu` device: oneDNN for convolutions and matrix products, own kernels for the rest, channels
// last in memory where that pays. docs/device_cpu.md has its rules.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "device/device.h"
#include "device/kernel.h"

namespace ebb::device {

// `threads_per_stream`: OpenMP threads of oneDNN's primitives in every stream; 0 means 1. Results
// depend on it, so it belongs to a job's numerics key.
absl::StatusOr<std::unique_ptr<Device>> OpenCpu(const DeviceOptions& options);

// The kernel of an op on this device; null when there is none. To be made under
// cpu::ScopedOmpThreads.
KernelFactory FindCpuKernel(absl::string_view op);

}  // namespace ebb::device
