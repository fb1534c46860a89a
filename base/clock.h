// Time as an interface, so that tests and the simulator can own it.
#pragma once

#include <chrono>

#include "base/units.h"

namespace ebb {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic time since an arbitrary start. Thread-safe.
  virtual Micros Now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  Micros Now() const override {
    return Micros(std::chrono::duration_cast<std::chrono::microseconds>(
                      std::chrono::steady_clock::now().time_since_epoch())
                      .count());
  }
};

}  // namespace ebb
