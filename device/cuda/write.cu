// Bytes that travel with a launch: they are among the kernel's parameters.
#include "device/cuda/write.h"

#include "device/cuda/launch.h"

namespace ebb::device::cuda {
namespace {

struct WriteByte {
  char* to;
  std::array<char, 64> data;
  EBB_INLINE void operator()(int64_t i) const { to[i] = data[static_cast<size_t>(i)]; }
};

}  // namespace

absl::Status WriteBytes(Stream stream, void* to, const std::array<char, 64>& data, Bytes bytes) {
  const Launch at{.stream = stream};
  return ForEach(at, bytes.count(), WriteByte{static_cast<char*>(to), data});
}

}  // namespace ebb::device::cuda
