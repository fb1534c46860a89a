#include "runtime/judge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "graph/training.h"

namespace ebb::runtime {
namespace {

WatchedMetric BestOf(const JobSpec& spec) {
  if (spec.early) return spec.early->metric;
  if (spec.schedule.kind == ScheduleKind::kPlateau) return spec.schedule.plateau.metric;
  return WatchedMetric();
}

absl::Status CheckMetric(const JobSpec& spec, absl::string_view field,
                         const WatchedMetric& metric) {
  if (!spec.val) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " watches '", metric.name, "', which needs data.val"));
  }
  std::vector<std::string> names = {"val/loss"};
  for (const graph::MetricSpec& measured : spec.metrics) {
    names.push_back(absl::StrCat("val/", graph::Name(measured)));
  }
  if (std::find(names.begin(), names.end(), metric.name) != names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " watches '", metric.name, "', which is not measured; there is ",
                   absl::StrJoin(names, ", "), "; `metrics` says what else is"));
}

// Written so that NaN fails every test.
absl::Status Check(bool condition, absl::string_view what) {
  return condition ? absl::OkStatus() : absl::InvalidArgumentError(what);
}

}  // namespace

bool EvaluationsDecide(const JobSpec& spec) {
  return spec.early || spec.schedule.kind == ScheduleKind::kPlateau || spec.keep != Keep::kLast;
}

absl::Status CheckDecisions(const JobSpec& spec) {
  if (spec.early) {
    EBB_RETURN_IF_ERROR(CheckMetric(spec, "stop.early", spec.early->metric));
    EBB_RETURN_IF_ERROR(Check(spec.early->patience >= 1, "stop.early.patience must be at least 1"));
    EBB_RETURN_IF_ERROR(
        Check(spec.early->min_delta >= 0, "stop.early.min_delta must not be negative"));
  }
  if (spec.schedule.kind == ScheduleKind::kPlateau) {
    const PlateauSpec& plateau = spec.schedule.plateau;
    EBB_RETURN_IF_ERROR(CheckMetric(spec, "schedule.plateau", plateau.metric));
    EBB_RETURN_IF_ERROR(Check(plateau.factor > 0 && plateau.factor < 1,
                              "schedule.plateau.factor must be above 0 and below 1"));
    EBB_RETURN_IF_ERROR(
        Check(plateau.patience >= 0, "schedule.plateau.patience must not be negative"));
    EBB_RETURN_IF_ERROR(Check(plateau.threshold >= 0 && plateau.threshold < 1,
                              "schedule.plateau.threshold must be within [0,1)"));
    EBB_RETURN_IF_ERROR(
        Check(plateau.cooldown >= 0, "schedule.plateau.cooldown must not be negative"));
    EBB_RETURN_IF_ERROR(Check(plateau.min_lr >= 0, "schedule.plateau.min_lr must not be negative"));
  }
  if (spec.keep != Keep::kLast) return CheckMetric(spec, "checkpoint.keep: best", BestOf(spec));
  return absl::OkStatus();
}

absl::Status CheckEvaluationsCome(const JobSpec& spec, int64_t first, int64_t total_steps) {
  const bool plateau = spec.schedule.kind == ScheduleKind::kPlateau;
  if ((!spec.early && !plateau) || first <= total_steps) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      spec.early ? "stop.early" : "schedule.plateau",
      " goes by evaluations, and the job ends after step ", total_steps,
      " before the first of them",
      first == std::numeric_limits<int64_t>::max() ? "" : absl::StrCat(", after step ", first),
      "; give a smaller evaluate.every, or a later end"));
}

Judge::Record::Record(const WatchedMetric& watched)
    : metric(watched),
      best(watched.better == Better::kLower ? std::numeric_limits<double>::infinity()
                                            : -std::numeric_limits<double>::infinity()) {}

bool Judge::Record::Improves(double value, double margin) {
  const double over = std::isinf(best) ? 0 : margin;  // anything is better than nothing
  const bool better = metric.better == Better::kLower ? value < best - over : value > best + over;
  bad = better ? 0 : bad + 1;
  if (better) best = value;
  return better;
}

Judge::Judge(const JobSpec& spec) : early_(spec.early), plateau_(spec.schedule.plateau) {
  if (spec.early) early_record_.emplace(spec.early->metric);
  if (spec.schedule.kind == ScheduleKind::kPlateau) plateau_record_.emplace(plateau_.metric);
  if (spec.keep != Keep::kLast) keep_record_.emplace(BestOf(spec));
}

Judgement Judge::Decide(const std::map<std::string, double>& values) {
  Judgement judgement;
  if (early_record_) {
    early_record_->Improves(values.at(early_record_->metric.name), early_->min_delta);
    judgement.stop = early_record_->bad >= early_->patience;
  }
  if (keep_record_) {
    judgement.best = keep_record_->Improves(values.at(keep_record_->metric.name), 0);
  }
  if (plateau_record_) {
    judgement.lower_rate = PlateauEnds(values.at(plateau_record_->metric.name));
  }
  return judgement;
}

bool Judge::PlateauEnds(double value) {
  // PyTorch's margin has the sign of the best: below best (1 - threshold), above best (1 +
  // threshold).
  plateau_record_->Improves(value, plateau_record_->best * plateau_.threshold);
  if (cooling_ > 0) {
    --cooling_;
    plateau_record_->bad = 0;
  }
  if (plateau_record_->bad <= plateau_.patience) return false;
  cooling_ = plateau_.cooldown;
  plateau_record_->bad = 0;
  return true;
}

double Judge::Lowered(double rate) const {
  constexpr double kLeast = 1e-8;  // PyTorch's eps: a smaller fall is none
  const double lowered = std::max(rate * plateau_.factor, plateau_.min_lr);
  return rate - lowered > kLeast ? lowered : rate;
}

std::string Judge::WhyStopped() const {
  return absl::StrCat(early_record_->metric.name, " has not been better than ", early_record_->best,
                      " for ", early_record_->bad,
                      early_record_->bad == 1 ? " evaluation" : " evaluations");
}

}  // namespace ebb::runtime
