#include "model/onnx_resize.h"

#include <algorithm>
#include <cmath>

namespace ebb::model {
namespace {

// Where output position `at` lies on the input's axis (ONNX, Resize,
// coordinate_transformation_mode).
double Origin(const ResizeAxis& axis, double at) {
  const auto in = static_cast<double>(axis.in), out = static_cast<double>(axis.out);
  const std::string& how = axis.coordinates;
  if (how == "asymmetric") return at / axis.scale;
  if (how == "align_corners") return axis.out == 1 ? 0 : at * (in - 1) / (out - 1);
  if (how == "pytorch_half_pixel" && axis.out == 1) return 0;
  if (how == "tf_half_pixel_for_nn") return (at + 0.5) / axis.scale;
  const double half_pixel = (at + 0.5) / axis.scale - 0.5;
  if (how != "half_pixel_symmetric") return half_pixel;
  return in / 2 * (1 - out / (axis.scale * in)) + half_pixel;
}

double Linear(double distance) { return std::max(0.0, 1 - std::fabs(distance)); }

double Cubic(double distance, double a) {
  const double x = std::fabs(distance);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0;
}

}  // namespace

bool KnowsCoordinates(const std::string& coordinates) {
  for (const char* known : {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                            "align_corners", "asymmetric", "tf_half_pixel_for_nn"}) {
    if (coordinates == known) return true;
  }
  return false;
}

bool KnowsNearestMode(const std::string& nearest_mode) {
  for (const char* known : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) {
    if (nearest_mode == known) return true;
  }
  return false;
}

std::vector<int64_t> NearestPositions(const ResizeAxis& axis) {
  std::vector<int64_t> positions(static_cast<size_t>(axis.out));
  for (size_t o = 0; o < positions.size(); ++o) {
    const double at = Origin(axis, static_cast<double>(o));
    double nearest = std::ceil(at - 0.5);
    if (axis.nearest_mode == "round_prefer_ceil") nearest = std::floor(at + 0.5);
    if (axis.nearest_mode == "floor") nearest = std::floor(at);
    if (axis.nearest_mode == "ceil") nearest = std::ceil(at);
    const double last = static_cast<double>(axis.in - 1);
    positions[o] = static_cast<int64_t>(std::clamp(nearest, 0.0, last));
  }
  return positions;
}

std::vector<double> ResizeWeights(const ResizeAxis& axis) {
  const auto in = static_cast<size_t>(axis.in);
  std::vector<double> weights(static_cast<size_t>(axis.out) * in, 0.0);
  // Antialiasing widens the filter when the axis shrinks.
  const double shrink = axis.antialias ? std::min(axis.scale, 1.0) : 1.0;
  const double reach = (axis.mode == "cubic" ? 2 : 1) / shrink;
  for (int64_t o = 0; o < axis.out; ++o) {
    double* row = weights.data() + static_cast<size_t>(o) * in;
    const double at = Origin(axis, static_cast<double>(o));
    double sum = 0;
    for (double j = std::ceil(at - reach); j <= std::floor(at + reach); ++j) {
      const bool outside = j < 0 || j > static_cast<double>(axis.in - 1);
      if (outside && axis.exclude_outside) continue;
      const double distance = (j - at) * shrink;
      const double weight = axis.mode == "cubic" ? Cubic(distance, axis.cubic_a) : Linear(distance);
      // Beyond the edge the edge goes on.
      row[static_cast<size_t>(std::clamp(j, 0.0, static_cast<double>(axis.in - 1)))] += weight;
      sum += weight;
    }
    for (size_t i = 0; sum != 0 && i < in; ++i) row[i] /= sum;
  }
  return weights;
}

}  // namespace ebb::model
