// NVIDIA's libraries behind library.h. They are opened when a kernel of theirs is first made, so
// that a device opens where they are not.
#pragma once

#include <memory>

#include "device/cuda/api.h"
#include "device/cuda/library.h"

namespace ebb::device::cuda {

std::shared_ptr<Library> MakeCudaLibrary(std::shared_ptr<Api> api);

}  // namespace ebb::device::cuda
