// What NVIDIA's management library (libnvidia-ml, a part of the driver) says of a GPU's memory. It
// is opened when it is asked, and does without a CUDA context. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/units.h"

namespace ebb::device::cuda {

class Nvml {
 public:
  // The GPU at a place on the PCI bus, as cudaDeviceGetPCIBusId tells it. Unavailable says what is
  // missing.
  static absl::StatusOr<std::unique_ptr<Nvml>> Open(const std::string& pci_bus_id);
  virtual ~Nvml() = default;
  // Memory that is in use by all processes together.
  virtual absl::StatusOr<Bytes> Used() const = 0;
};

}  // namespace ebb::device::cuda
