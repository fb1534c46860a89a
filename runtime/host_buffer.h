// Host memory that a device copies from and to: batches staged for it, state on its way. Thread
// rule: as plain memory.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/units.h"
#include "device/device.h"

namespace ebb::runtime {

class HostBuffer {
 public:
  // Of `device`, which must outlive it. Zero at first; on a device that computes nothing it is
  // addresses that fault. ResourceExhausted when there is none to be had.
  static absl::StatusOr<std::unique_ptr<HostBuffer>> Create(device::Device& device, Bytes bytes);
  ~HostBuffer();
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  char* base() const { return base_; }
  Bytes size() const { return bytes_; }
  absl::Span<const char> bytes() const { return {base_, static_cast<size_t>(bytes_.count())}; }

 private:
  HostBuffer(device::Device& device, char* base, Bytes bytes)
      : device_(device), base_(base), bytes_(bytes) {}
  device::Device& device_;
  char* const base_;
  const Bytes bytes_;
};

}  // namespace ebb::runtime
