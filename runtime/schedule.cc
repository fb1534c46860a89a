#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "runtime/job.h"

namespace ebb::runtime {
namespace {

// From a to b along half a cosine; f in [0, 1].
double CosineBetween(double a, double b, double f) {
  return b + (a - b) * (1 + std::cos(std::numbers::pi * f)) / 2;
}

double AtPoints(const ScheduleSpec& schedule, double step) {
  const auto& points = schedule.points;
  if (points.empty()) return schedule.base_lr;
  if (step <= points.front().first) return points.front().second;
  if (step >= points.back().first) return points.back().second;
  const auto after = std::upper_bound(points.begin(), points.end(), step,
                                      [](double s, const auto& p) { return s < p.first; });
  const auto before = after - 1;
  const double f = (step - before->first) / (after->first - before->first);
  switch (schedule.interpolation) {
    case Interpolation::kHold:
      return before->second;
    case Interpolation::kLinear:
      return before->second + f * (after->second - before->second);
    case Interpolation::kCosine:
      return CosineBetween(before->second, after->second, f);
  }
  return before->second;
}

// PyTorch's OneCycleLR with anneal_strategy "cos" and two phases.
double OneCycle(const ScheduleSpec& schedule, double step, double total) {
  const double initial = schedule.base_lr / schedule.div_factor;
  const double last = initial / schedule.final_div_factor;
  const double peak_at = schedule.pct_start * total - 1;
  if (step <= peak_at) {
    return CosineBetween(initial, schedule.base_lr, peak_at > 0 ? step / peak_at : 1);
  }
  const double rest = total - 1 - peak_at;
  return CosineBetween(schedule.base_lr, last,
                       rest > 0 ? std::min(1.0, (step - peak_at) / rest) : 1);
}

}  // namespace

double LearningRate(const ScheduleSpec& schedule, int64_t step, int64_t total_steps) {
  const double t = static_cast<double>(step);
  const double total = static_cast<double>(std::max<int64_t>(1, total_steps));
  double lr = schedule.base_lr;
  switch (schedule.kind) {
    case ScheduleKind::kConstant:
    case ScheduleKind::kPlateau:
      break;
    case ScheduleKind::kStep:
      if (schedule.step_size > 0) {
        lr *= std::pow(schedule.gamma, static_cast<double>(step / schedule.step_size));
      }
      break;
    case ScheduleKind::kCosine:
      lr = CosineBetween(schedule.base_lr, schedule.min_lr, std::min(1.0, t / total));
      break;
    case ScheduleKind::kOneCycle:
      lr = OneCycle(schedule, t, total);
      break;
    case ScheduleKind::kPoints:
      lr = AtPoints(schedule, t);
      break;
  }
  if (step < schedule.warmup_steps) {
    lr *= (t + 1) / static_cast<double>(schedule.warmup_steps);
  }
  return lr;
}

absl::Status CheckLeastRate(const ScheduleSpec& schedule) {
  const bool plateau = schedule.kind == ScheduleKind::kPlateau;
  const double least = plateau                                  ? schedule.plateau.min_lr
                       : schedule.kind == ScheduleKind::kCosine ? schedule.min_lr
                                                                : 0;
  if (least <= schedule.base_lr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("schedule.", plateau ? "plateau" : "cosine", ".min_lr is ", least,
                   ", above the optimizer's lr of ", schedule.base_lr,
                   plateau ? ", so that it never falls" : ", so that it rises",
                   "; lower min_lr, or raise optimizer's lr"));
}

}  // namespace ebb::runtime
