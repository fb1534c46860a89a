// How fast and how busy over the last seconds of the device's clock, weighing what is older less.
// Thread rule: one owner thread.
#pragma once

#include <optional>

#include "base/units.h"

namespace ebb::runtime {

// Steps a second. With steps longer than the window it is the newest step's.
class StepRate {
 public:
  void Begin(Micros at) {  // the first step began
    if (!last_) last_ = at;
  }
  void Step(Micros at);  // a step is complete; REQUIRES Begin
  double PerSecond(Micros now) const;

 private:
  std::optional<Micros> last_;
  double steps_ = 0;    // decayed
  double seconds_ = 0;  // that they took, decayed alike
};

// A sum whose terms fade.
class DecayedSum {
 public:
  void Add(Micros at, double amount);
  double At(Micros now) const;

 private:
  double sum_ = 0;
  Micros last_;
};

}  // namespace ebb::runtime
