// The arithmetic of ONNX's Resize along one axis: from which input positions, and with what
// weights, every output position comes. Pure functions over plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ebb::model {

struct ResizeAxis {
  int64_t in = 1;
  int64_t out = 1;
  double scale = 1;  // as given, which need not be out / in
  std::string coordinates = "half_pixel";
  std::string nearest_mode = "round_prefer_floor";
  std::string mode = "nearest";  // "linear", "cubic"
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
};

// Are these the ways that the functions below know?
bool KnowsCoordinates(const std::string& coordinates);
bool KnowsNearestMode(const std::string& nearest_mode);

// The input position of each output position; mode "nearest".
std::vector<int64_t> NearestPositions(const ResizeAxis& axis);
// Row o of the [out, in] matrix weighs the input positions of output position o; other modes.
std::vector<double> ResizeWeights(const ResizeAxis& axis);

}  // namespace ebb::model
