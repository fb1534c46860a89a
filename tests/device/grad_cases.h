// Uses of every differentiable op, for the gradient check.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace ebb::device {

struct GradCase {
  // Graph text (graph/text.h) that makes a value "y" by the op in question. All f64 inputs are
  // differentiated; they and buffers are filled with random numbers.
  std::string text;
  double min = -1;  // range of the random numbers
  double max = 1;
  std::vector<double> kinks = {};  // points that the numbers keep clear of
};

std::vector<GradCase> GradCases();
inline void PrintTo(const GradCase& test, std::ostream* out) { *out << test.text; }

}  // namespace ebb::device
