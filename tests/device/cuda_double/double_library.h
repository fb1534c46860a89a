// What the double has in place of cuDNN and cuBLASLt: the host's library, on the double's streams.
#pragma once

#include <functional>
#include <memory>

#include "device/cuda/library.h"

namespace ebb::testing {

// `asked` is told of every product and convolution that is made; may be empty. From any thread.
std::shared_ptr<device::cuda::Library> MakeDoubleLibrary(
    std::function<void(device::Precision)> asked);

}  // namespace ebb::testing
