#include "runtime/host_buffer.h"

#include <algorithm>

#include "base/status.h"

namespace ebb::runtime {

absl::StatusOr<std::unique_ptr<HostBuffer>> HostBuffer::Create(Bytes bytes, Backing backing) {
  device::HostGranules granules;
  bytes = AlignUp(std::max(bytes, Bytes(1)), granules.granule());
  EBB_ASSIGN_OR_RETURN(char* base, granules.Reserve(bytes));
  std::unique_ptr<HostBuffer> buffer(new HostBuffer(base, bytes));
  if (backing == Backing::kMemory) {
    EBB_RETURN_IF_ERROR(granules.Commit(base, Bytes(0), bytes));
  }
  return buffer;
}

HostBuffer::~HostBuffer() { granules_.Unreserve(base_, bytes_); }

}  // namespace ebb::runtime
