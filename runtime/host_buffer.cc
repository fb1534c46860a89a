#include "runtime/host_buffer.h"

#include "base/status.h"

namespace ebb::runtime {

absl::StatusOr<std::unique_ptr<HostBuffer>> HostBuffer::Create(device::Device& device,
                                                               Bytes bytes) {
  EBB_ASSIGN_OR_RETURN(char* const base, device.AllocateHost(bytes));
  return std::unique_ptr<HostBuffer>(new HostBuffer(device, base, bytes));
}

HostBuffer::~HostBuffer() { device_.FreeHost(base_, bytes_); }

}  // namespace ebb::runtime
