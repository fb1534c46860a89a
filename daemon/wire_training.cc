// Loss, optimizer, schedule and metrics: wire -> native.
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "daemon/wire.h"
#include "daemon/wire_check.h"

namespace ebb::daemon {
namespace {

absl::Status Invalid(absl::string_view message) { return absl::InvalidArgumentError(message); }

absl::Status PointsFromWire(const v1::Schedule& wire, runtime::ScheduleSpec* schedule) {
  schedule->kind = runtime::ScheduleKind::kPoints;
  for (int i = 0; i < wire.points().point_size(); ++i) {
    const v1::Schedule::Point& point = wire.points().point(i);
    const std::string field = absl::StrCat("schedule.points[", i, "]");
    EBB_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, ".step"), point.step(), 0, 1e15));
    EBB_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, ".lr"), point.lr(), 0));
    if (i > 0 && point.step() <= schedule->points.back().first) {
      return Invalid(absl::StrCat(
          field, ".step is not above the one before it; give points in the order of their steps"));
    }
    schedule->points.emplace_back(point.step(), point.lr());
  }
  if (schedule->points.empty())
    return Invalid("schedule.points is empty; give at least one point {step, lr}");
  return absl::OkStatus();
}

runtime::Interpolation InterpolationFromWire(v1::Schedule::Interpolation wire) {
  switch (wire) {
    case v1::Schedule::INTERPOLATION_HOLD:
      return runtime::Interpolation::kHold;
    case v1::Schedule::INTERPOLATION_COSINE:
      return runtime::Interpolation::kCosine;
    default:
      return runtime::Interpolation::kLinear;
  }
}

absl::Status OneCycleFromWire(const v1::Schedule::OneCycle& wire, runtime::ScheduleSpec* schedule) {
  schedule->kind = runtime::ScheduleKind::kOneCycle;
  if (wire.has_pct_start()) schedule->pct_start = wire.pct_start();
  if (wire.has_div_factor()) schedule->div_factor = wire.div_factor();
  if (wire.has_final_div_factor()) schedule->final_div_factor = wire.final_div_factor();
  EBB_RETURN_IF_ERROR(CheckNumber("schedule.one_cycle.pct_start", schedule->pct_start, 0, 1));
  EBB_RETURN_IF_ERROR(CheckNumber("schedule.one_cycle.div_factor", schedule->div_factor, 1));
  return CheckNumber("schedule.one_cycle.final_div_factor", schedule->final_div_factor, 1);
}

// Without a mode, accuracies are to rise and all else is to fall.
runtime::WatchedMetric WatchedFromWire(const std::string& name, v1::Stop::Mode mode) {
  runtime::WatchedMetric metric;
  if (!name.empty()) metric.name = name;
  const bool rises = absl::StartsWith(metric.name, "val/accuracy") ||
                     absl::StartsWith(metric.name, "val/top") || metric.name == "val/macro_f1" ||
                     metric.name == "val/auc";
  if (mode == v1::Stop::MODE_MAX || (mode == v1::Stop::MODE_UNSPECIFIED && rises)) {
    metric.better = runtime::Better::kHigher;
  }
  return metric;
}

// Its numbers are checked where the job is prepared.
runtime::PlateauSpec PlateauFromWire(const v1::Schedule::Plateau& wire) {
  runtime::PlateauSpec plateau;
  plateau.metric = WatchedFromWire(wire.metric(), wire.mode());
  if (wire.has_factor()) plateau.factor = wire.factor();
  if (wire.has_patience()) plateau.patience = wire.patience();
  if (wire.has_threshold()) plateau.threshold = wire.threshold();
  plateau.cooldown = wire.cooldown();
  plateau.min_lr = wire.min_lr();
  return plateau;
}

absl::Status NumbersFromWire(absl::string_view field,
                             const google::protobuf::RepeatedField<double>& wire,
                             std::vector<double>* numbers) {
  for (int i = 0; i < wire.size(); ++i) {
    EBB_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, "[", i, "]"), wire.Get(i), 0, 1e30));
    numbers->push_back(wire.Get(i));
  }
  return absl::OkStatus();
}

absl::Status CheckAbove0(absl::string_view field, double number) {
  EBB_RETURN_IF_ERROR(CheckNumber(field, number, 0, 1e30));
  return number > 0 ? absl::OkStatus() : Invalid(absl::StrCat(field, " must be above 0"));
}

absl::StatusOr<graph::MetricKind> MetricKindFromWire(v1::Metric::Kind kind) {
  switch (kind) {
    case v1::Metric::KIND_LOSS:
      return graph::MetricKind::kLoss;
    case v1::Metric::KIND_ACCURACY:
      return graph::MetricKind::kAccuracy;
    case v1::Metric::KIND_TOP_K:
      return graph::MetricKind::kTopK;
    case v1::Metric::KIND_MSE:
      return graph::MetricKind::kMse;
    case v1::Metric::KIND_MACRO_F1:
      return graph::MetricKind::kMacroF1;
    case v1::Metric::KIND_PERPLEXITY:
      return graph::MetricKind::kPerplexity;
    case v1::Metric::KIND_AUC:
      return graph::MetricKind::kAuc;
    case v1::Metric::KIND_LOGLOSS:
      return graph::MetricKind::kLogLoss;
    case v1::Metric::KIND_OUTPUT:
      return graph::MetricKind::kOutput;
    default:
      return Invalid("needs a kind; give one, such as accuracy");
  }
}

}  // namespace

absl::Status LossFromWire(const v1::JobSpec& spec, runtime::JobSpec* job) {
  const v1::Loss& wire = spec.loss();
  graph::LossSpec& loss = job->loss;
  loss.output = wire.prediction();
  if (!wire.target().empty()) loss.target = wire.target();
  switch (wire.kind_case()) {
    case v1::Loss::kCrossEntropy:
      loss.kind = graph::LossKind::kCrossEntropy;
      loss.label_smoothing = wire.cross_entropy().label_smoothing();
      EBB_RETURN_IF_ERROR(
          CheckNumber("loss.cross_entropy.label_smoothing", loss.label_smoothing, 0, 1));
      if (wire.cross_entropy().has_ignore_index()) {
        loss.ignore_index = wire.cross_entropy().ignore_index();
      }
      return NumbersFromWire("loss.cross_entropy.class_weights",
                             wire.cross_entropy().class_weights(), &loss.class_weights);
    case v1::Loss::kNll:
      loss.kind = graph::LossKind::kNll;
      if (wire.nll().has_ignore_index()) loss.ignore_index = wire.nll().ignore_index();
      return NumbersFromWire("loss.nll.class_weights", wire.nll().class_weights(),
                             &loss.class_weights);
    case v1::Loss::kMse:
      loss.kind = graph::LossKind::kMse;
      return absl::OkStatus();
    case v1::Loss::kL1:
      loss.kind = graph::LossKind::kL1;
      return absl::OkStatus();
    case v1::Loss::kSmoothL1:
      loss.kind = graph::LossKind::kSmoothL1;
      if (wire.smooth_l1().has_beta()) loss.beta = wire.smooth_l1().beta();
      return CheckAbove0("loss.smooth_l1.beta", loss.beta);
    case v1::Loss::kHuber:
      loss.kind = graph::LossKind::kHuber;
      if (wire.huber().has_delta()) loss.beta = wire.huber().delta();
      return CheckAbove0("loss.huber.delta", loss.beta);
    case v1::Loss::kBceWithLogits:
      loss.kind = graph::LossKind::kBceWithLogits;
      return NumbersFromWire("loss.bce_with_logits.pos_weight", wire.bce_with_logits().pos_weight(),
                             &loss.pos_weight);
    case v1::Loss::kOutput:
      if (wire.output().empty())
        return Invalid("loss.output is empty; name an output of the graph");
      if (!wire.prediction().empty() || !wire.target().empty()) {
        return Invalid(
            "loss.output takes neither prediction nor target, since the graph computes the loss; "
            "remove them");
      }
      loss.kind = graph::LossKind::kGraphOutput;
      loss.output = wire.output();
      return absl::OkStatus();
    case v1::Loss::KIND_NOT_SET:
      break;
  }
  return Invalid(
      "loss is missing; give cross_entropy, nll, mse, l1, smooth_l1, huber, bce_with_logits or "
      "output:NAME");
}

absl::Status ScheduleFromWire(const v1::JobSpec& spec, runtime::JobSpec* job) {
  const v1::Schedule& wire = spec.schedule();
  runtime::ScheduleSpec& schedule = job->schedule;
  EBB_RETURN_IF_ERROR(CheckCount("schedule.warmup_steps", wire.warmup_steps(), 0));
  schedule.warmup_steps = wire.warmup_steps();
  if (wire.interpolate() != v1::Schedule::INTERPOLATION_UNSPECIFIED && !wire.has_points()) {
    return Invalid("schedule.interpolate goes with schedule.points; remove it, or give points");
  }
  schedule.interpolation = InterpolationFromWire(wire.interpolate());
  switch (wire.kind_case()) {
    case v1::Schedule::kStep:
      schedule.kind = runtime::ScheduleKind::kStep;
      EBB_RETURN_IF_ERROR(CheckCount("schedule.step.every", wire.step().every(), 1));
      schedule.step_size = wire.step().every();
      if (wire.step().has_gamma()) schedule.gamma = wire.step().gamma();
      return CheckNumber("schedule.step.gamma", schedule.gamma, 0);
    case v1::Schedule::kCosine:
      schedule.kind = runtime::ScheduleKind::kCosine;
      schedule.min_lr = wire.cosine().min_lr();
      return CheckNumber("schedule.cosine.min_lr", schedule.min_lr, 0);
    case v1::Schedule::kOneCycle:
      return OneCycleFromWire(wire.one_cycle(), &schedule);
    case v1::Schedule::kPoints:
      return PointsFromWire(wire, &schedule);
    case v1::Schedule::kPlateau:
      schedule.kind = runtime::ScheduleKind::kPlateau;
      schedule.plateau = PlateauFromWire(wire.plateau());
      return absl::OkStatus();
    default:
      schedule.kind = runtime::ScheduleKind::kConstant;
      return absl::OkStatus();
  }
}

absl::Status MetricsFromWire(const v1::JobSpec& spec, runtime::JobSpec* job) {
  for (int i = 0; i < spec.metrics_size(); ++i) {
    const v1::Metric& wire = spec.metrics(i);
    const std::string field = absl::StrCat("metrics[", i, "]");
    auto kind = MetricKindFromWire(wire.kind());
    if (!kind.ok()) return Invalid(absl::StrCat(field, " ", kind.status().message()));
    graph::MetricSpec metric{.kind = *kind, .output = wire.output()};
    if (metric.kind == graph::MetricKind::kTopK) {
      EBB_RETURN_IF_ERROR(CheckCount(absl::StrCat(field, ".k"), wire.k(), 1, 1 << 20));
      metric.k = wire.k();
    }
    if (metric.kind == graph::MetricKind::kOutput && wire.output().empty()) {
      return Invalid(absl::StrCat(field, ".output is empty; name an output of the graph"));
    }
    if (!wire.output().empty() && metric.kind != graph::MetricKind::kOutput) {
      return Invalid(absl::StrCat(field, ".output goes with the kind output; remove it"));
    }
    if (wire.k() != 0 && wire.kind() != v1::Metric::KIND_TOP_K) {
      return Invalid(absl::StrCat(field, ".k goes with top_k; remove it"));
    }
    job->metrics.push_back(metric);
  }
  return absl::OkStatus();
}

absl::Status DecisionsFromWire(const v1::JobSpec& spec, runtime::JobSpec* job) {
  if (spec.stop().has_early()) {
    const v1::Stop::Early& wire = spec.stop().early();
    job->early = {.metric = WatchedFromWire(wire.metric(), wire.mode()),
                  .patience = wire.patience(),
                  .min_delta = wire.min_delta()};
  }
  bool best = false, last = false;
  for (const int keep : spec.checkpoint().keep()) {
    bool& named = keep == v1::Checkpoint::KEEP_BEST ? best : last;
    if (named) return Invalid("checkpoint.keep names a state twice; give best, last or both");
    named = true;
  }
  if (best) job->keep = last ? runtime::Keep::kBestAndLast : runtime::Keep::kBest;
  if (spec.has_ema()) {
    job->ema_decay = spec.ema().decay();
    if (!(*job->ema_decay > 0 && *job->ema_decay < 1)) {
      return Invalid(absl::StrCat("ema.decay is ", *job->ema_decay,
                                  "; give a number above 0 and below 1, such as 0.999"));
    }
  }
  const v1::Evaluate::Weights weights = spec.evaluate().weights();
  if (weights == v1::Evaluate::WEIGHTS_EMA && !spec.has_ema()) {
    return Invalid("evaluate.weights is ema, which needs ema.decay; give that, or remove weights");
  }
  if (weights == v1::Evaluate::WEIGHTS_LAST && spec.has_ema()) {
    return Invalid("evaluate.weights is last, so that nothing reads the averages: remove ema");
  }
  // Which metrics there are is known where the job is prepared, and the ranges are checked there.
  return absl::OkStatus();
}

}  // namespace ebb::daemon
