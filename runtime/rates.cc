#include "runtime/rates.h"

#include <algorithm>
#include <cmath>

namespace ebb::runtime {
namespace {

constexpr double kWindowSeconds = 2.0;

double Seconds(Micros span) {
  return static_cast<double>(std::max<int64_t>(0, span.count())) * 1e-6;
}
double Fade(double seconds) { return std::exp(-seconds / kWindowSeconds); }

}  // namespace

void StepRate::Step(Micros at) {
  const double taken = Seconds(at - *last_);
  steps_ = steps_ * Fade(taken) + 1;
  seconds_ = seconds_ * Fade(taken) + taken;
  last_ = std::max(*last_, at);
}

double StepRate::PerSecond(Micros now) const {
  if (steps_ == 0 || seconds_ == 0) return 0;
  const double idle = Seconds(now - *last_);
  // A step under way is no slow-down until it takes twice as long as the others.
  if (idle < 2 * seconds_ / steps_) return steps_ / seconds_;
  return steps_ * Fade(idle) / (seconds_ * Fade(idle) + idle);
}

void DecayedSum::Add(Micros at, double amount) {
  sum_ = sum_ * Fade(Seconds(at - last_)) + amount * Fade(Seconds(last_ - at));
  last_ = std::max(last_, at);
}

double DecayedSum::At(Micros now) const { return sum_ * Fade(Seconds(now - last_)); }

}  // namespace ebb::runtime
