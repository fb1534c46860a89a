// What the double has in place of cuDNN and cuBLASLt: the host's library, on the double's streams.
#pragma once

#include <memory>

#include "device/cuda/library.h"

namespace ebb::testing {

std::shared_ptr<device::cuda::Library> MakeDoubleLibrary();

}  // namespace ebb::testing
