// A device's model from a few dozen measured kernels. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "perfmodel/op_model.h"
#include "perfmodel/sample.h"

namespace ebb::perfmodel {

// What became of one family and type.
struct LawReport {
  Family family;
  graph::DType dtype;
  int64_t samples = 0;  // kernels of different work
  double mape = 0;      // of kernels left out of the fit, %; 0: too few, the data sheet answers
  bool fitted = false;
};

struct Calibration {
  OpModel model;
  std::vector<LawReport> laws;
};

// From the samples of `device` (OpSample::device) that SoloMedians keeps with `least` runs each. A
// law is fitted wherever there are at least 10 kernels of different work. InvalidArgument: fewer
// than 30 in all. The same samples in any order give the same bits.
absl::StatusOr<Calibration> Calibrate(const Hardware& hardware, absl::Span<const OpSample> samples,
                                      absl::string_view device, int64_t least = 5);

// For a device that no data sheet here describes: peaks as the samples reached them. The
// multiprocessors (cores) are the caller's to say. InvalidArgument: no samples of products and of
// other work.
absl::StatusOr<Hardware> HardwareFromSamples(absl::string_view device, double multiprocessors,
                                             absl::Span<const OpSample> samples);

}  // namespace ebb::perfmodel
