// A predicted time, with how sure it is. Plain data.
#pragma once

#include <string>

namespace ebb::perfmodel {

// Microseconds. `low` to `high` is meant to hold 80 % of what would be measured.
struct Estimate {
  double median = 0;
  double low = 0;
  double high = 0;
  bool in_hull = true;  // within what was measured; else extrapolated
  std::string source;   // what it rests on: "36 samples of a100-80gb", "data sheet of h100-80gb"
};

}  // namespace ebb::perfmodel
