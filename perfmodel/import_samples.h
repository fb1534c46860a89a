// Tables of kernels' times that others measured, as samples. Free functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "perfmodel/sample.h"

namespace ebb::perfmodel {

// NeuSight's tables (sitar-lab/NeuSight, data/dataset): forward kernels of f32, times that include
// the launch, the mean of the best 5 of 25; the device is the column Device. A product is
// (M x N) x (N x K). InvalidArgument names line and column, also of an op that is not known.
absl::StatusOr<std::vector<OpSample>> NeuSightSamples(absl::string_view text,
                                                      absl::string_view source);

// Vidur's tables (microsoft/vidur, mlp.csv): kernels of a transformer's layer in f16 by tokens and
// degree of tensor parallelism, medians of 20. Products, norms, activations, additions, rotations.
absl::StatusOr<std::vector<OpSample>> VidurSamples(absl::string_view text, absl::string_view source,
                                                   absl::string_view device);

}  // namespace ebb::perfmodel
