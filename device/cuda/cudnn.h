// The only door to cuDNN, by its graph interface: convolutions. Its libraries are opened when they
// are first needed. Plans are cuDNN's own choice in the order of its ranking (heuristic mode A,
// then its fallbacks), never by timing; engines that add in no fixed order are left out, and those
// that are compiled at run time, so that a plan depends on the convolution and on what the GPU is
// alone, and can be had without one. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "device/cuda/library.h"

namespace ebb::device::cuda {

class PlannedConvolution : public Convolution {
 public:
  // cuDNN's name of the engine and its settings.
  virtual const std::string& plan() const = 0;
};

class Cudnn {
 public:
  // For the GPU that is current. Unavailable when the library is not to be had, or is older than
  // the headers of this build.
  static absl::StatusOr<std::shared_ptr<Cudnn>> Open(const Properties& gpu);
  // Plans convolutions, which cannot run, for the GPU that cuDNN's JSON record tells of.
  static absl::StatusOr<std::shared_ptr<Cudnn>> OpenOffline(const std::string& record);
  virtual ~Cudnn() = default;
  virtual absl::StatusOr<std::shared_ptr<const PlannedConvolution>> Make(const ConvSpec& spec) = 0;
};

// What workspace a convolution may have: as much as an f32 copy of each operand, and a fixed part.
Bytes MaxConvolutionWorkspace(const ConvSpec& spec);

// 91900 of cuDNN 9.19.
absl::StatusOr<int64_t> CudnnVersion();
// cuDNN's record of the GPU of this number, for OpenOffline.
absl::StatusOr<std::string> CudnnRecord(int ordinal);

}  // namespace ebb::device::cuda
