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

absl::Status BetasFromWire(absl::string_view field,
                           const google::protobuf::RepeatedField<double>& betas,
                           graph::OptimizerSpec* optimizer) {
  if (betas.empty()) return absl::OkStatus();
  if (betas.size() != 2) return Invalid(absl::StrCat(field, " needs two numbers"));
  for (int i = 0; i < 2; ++i) {
    EBB_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, "[", i, "]"), betas.Get(i), 0, 1));
    if (betas.Get(i) == 1) return Invalid(absl::StrCat(field, "[", i, "] must be below 1"));
  }
  optimizer->beta1 = betas.Get(0);
  optimizer->beta2 = betas.Get(1);
  return absl::OkStatus();
}

// Adam and AdamW have the same fields but for the default of weight_decay.
template <class AdamLike>
absl::Status AdamFromWire(absl::string_view field, const AdamLike& wire, double weight_decay,
                          graph::OptimizerSpec* optimizer) {
  EBB_RETURN_IF_ERROR(BetasFromWire(absl::StrCat(field, ".betas"), wire.betas(), optimizer));
  if (wire.has_eps()) {
    EBB_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, ".eps"), wire.eps(), 0));
    optimizer->epsilon = wire.eps();
  }
  EBB_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, ".weight_decay"), weight_decay, 0));
  optimizer->weight_decay = weight_decay;
  return absl::OkStatus();
}

absl::Status SgdFromWire(const v1::Sgd& wire, graph::OptimizerSpec* optimizer) {
  EBB_RETURN_IF_ERROR(CheckNumber("optimizer.sgd.momentum", wire.momentum(), 0));
  EBB_RETURN_IF_ERROR(CheckNumber("optimizer.sgd.dampening", wire.dampening(), 0));
  EBB_RETURN_IF_ERROR(CheckNumber("optimizer.sgd.weight_decay", wire.weight_decay(), 0));
  if (wire.nesterov() && (wire.momentum() == 0 || wire.dampening() != 0)) {
    return Invalid("optimizer.sgd.nesterov needs momentum above 0 and no dampening");
  }
  optimizer->kind = graph::OptimizerKind::kSgd;
  optimizer->momentum = wire.momentum();
  optimizer->dampening = wire.dampening();
  optimizer->nesterov = wire.nesterov();
  optimizer->weight_decay = wire.weight_decay();
  return absl::OkStatus();
}

absl::Status GroupsFromWire(const v1::Optimizer& wire, runtime::JobSpec* job) {
  for (int i = 0; i < wire.groups_size(); ++i) {
    const v1::Optimizer::Group& group = wire.groups(i);
    const std::string field = absl::StrCat("optimizer.groups[", i, "]");
    if (group.match().empty()) return Invalid(absl::StrCat(field, " needs match"));
    graph::ParamGroup native{group.match(), job->optimizer};
    if (group.has_lr_scale()) {
      EBB_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, ".lr_scale"), group.lr_scale(), 0));
      native.optimizer.lr_scale = group.lr_scale();
    }
    if (group.has_weight_decay()) {
      EBB_RETURN_IF_ERROR(
          CheckNumber(absl::StrCat(field, ".weight_decay"), group.weight_decay(), 0));
      native.optimizer.weight_decay = group.weight_decay();
    }
    native.optimizer.frozen = group.frozen();
    job->groups.push_back(std::move(native));
  }
  return absl::OkStatus();
}

absl::Status ClipFromWire(const v1::Optimizer& wire, graph::ClipSpec* clip) {
  const auto check = [](absl::string_view field, double limit) {
    EBB_RETURN_IF_ERROR(CheckNumber(field, limit, 0));
    return limit > 0 ? absl::OkStatus() : Invalid(absl::StrCat(field, " must be above 0"));
  };
  if (wire.has_clip_norm() && wire.has_clip_value()) {
    return Invalid("optimizer.clip_norm and optimizer.clip_value exclude each other; remove one");
  }
  if (wire.has_clip_norm()) {
    clip->norm = wire.clip_norm();
    return check("optimizer.clip_norm", *clip->norm);
  }
  if (wire.has_clip_value()) {
    clip->value = wire.clip_value();
    return check("optimizer.clip_value", *clip->value);
  }
  return absl::OkStatus();
}

absl::Status PointsFromWire(const v1::Schedule& wire, runtime::ScheduleSpec* schedule) {
  schedule->kind = runtime::ScheduleKind::kPoints;
  for (int i = 0; i < wire.points().point_size(); ++i) {
    const v1::Schedule::Point& point = wire.points().point(i);
    const std::string field = absl::StrCat("schedule.points[", i, "]");
    EBB_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, ".step"), point.step(), 0, 1e15));
    EBB_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, ".lr"), point.lr(), 0));
    if (i > 0 && point.step() <= schedule->points.back().first) {
      return Invalid(absl::StrCat(field, ".step must be above the one before it"));
    }
    schedule->points.emplace_back(point.step(), point.lr());
  }
  if (schedule->points.empty()) return Invalid("schedule.points needs at least one point");
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
  const bool rises =
      absl::StartsWith(metric.name, "val/accuracy") || absl::StartsWith(metric.name, "val/top");
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
      return absl::OkStatus();
    case v1::Loss::kMse:
      loss.kind = graph::LossKind::kMse;
      return absl::OkStatus();
    case v1::Loss::kBceWithLogits:
      loss.kind = graph::LossKind::kBceWithLogits;
      return absl::OkStatus();
    case v1::Loss::kOutput:
      if (wire.output().empty()) return Invalid("loss.output needs the name of a graph output");
      if (!wire.prediction().empty() || !wire.target().empty()) {
        return Invalid(
            "loss.output takes neither prediction nor target: the graph computes the loss");
      }
      loss.kind = graph::LossKind::kGraphOutput;
      loss.output = wire.output();
      return absl::OkStatus();
    case v1::Loss::KIND_NOT_SET:
      break;
  }
  return Invalid("loss is missing: cross_entropy, mse, bce_with_logits or output:NAME");
}

absl::Status OptimizerFromWire(const v1::JobSpec& spec, runtime::JobSpec* job) {
  const v1::Optimizer& wire = spec.optimizer();
  graph::OptimizerSpec& optimizer = job->optimizer;
  double& lr = job->schedule.base_lr;
  switch (wire.kind_case()) {
    case v1::Optimizer::kSgd:
      if (!wire.sgd().has_lr() && !spec.schedule().has_points()) {
        return Invalid("optimizer.sgd.lr is missing");
      }
      lr = wire.sgd().lr();
      EBB_RETURN_IF_ERROR(SgdFromWire(wire.sgd(), &optimizer));
      break;
    case v1::Optimizer::kAdam:
      optimizer.kind = graph::OptimizerKind::kAdam;
      if (wire.adam().has_lr()) lr = wire.adam().lr();
      EBB_RETURN_IF_ERROR(
          AdamFromWire("optimizer.adam", wire.adam(), wire.adam().weight_decay(), &optimizer));
      break;
    case v1::Optimizer::kAdamw:
      optimizer.kind = graph::OptimizerKind::kAdamW;
      if (wire.adamw().has_lr()) lr = wire.adamw().lr();
      EBB_RETURN_IF_ERROR(AdamFromWire(
          "optimizer.adamw", wire.adamw(),
          wire.adamw().has_weight_decay() ? wire.adamw().weight_decay() : 0.01, &optimizer));
      break;
    default:
      return Invalid("optimizer is missing: sgd, adam or adamw");
  }
  EBB_RETURN_IF_ERROR(CheckNumber("optimizer lr", lr, 0, runtime::kMostRate));
  EBB_RETURN_IF_ERROR(ClipFromWire(wire, &job->clip));
  return GroupsFromWire(wire, job);
}

absl::Status ScheduleFromWire(const v1::JobSpec& spec, runtime::JobSpec* job) {
  const v1::Schedule& wire = spec.schedule();
  runtime::ScheduleSpec& schedule = job->schedule;
  EBB_RETURN_IF_ERROR(CheckCount("schedule.warmup_steps", wire.warmup_steps(), 0));
  schedule.warmup_steps = wire.warmup_steps();
  if (wire.interpolate() != v1::Schedule::INTERPOLATION_UNSPECIFIED && !wire.has_points()) {
    return Invalid("schedule.interpolate goes with schedule.points");
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
    graph::MetricSpec metric;
    switch (wire.kind()) {
      case v1::Metric::KIND_LOSS:
        metric.kind = graph::MetricKind::kLoss;
        break;
      case v1::Metric::KIND_ACCURACY:
        metric.kind = graph::MetricKind::kAccuracy;
        break;
      case v1::Metric::KIND_TOP_K:
        metric.kind = graph::MetricKind::kTopK;
        EBB_RETURN_IF_ERROR(CheckCount(absl::StrCat(field, ".k"), wire.k(), 1, 1 << 20));
        metric.k = wire.k();
        break;
      case v1::Metric::KIND_MSE:
        metric.kind = graph::MetricKind::kMse;
        break;
      default:
        return Invalid(absl::StrCat(field, " needs a kind"));
    }
    if (wire.k() != 0 && wire.kind() != v1::Metric::KIND_TOP_K) {
      return Invalid(absl::StrCat(field, ".k goes with top_k"));
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
  if (spec.checkpoint().keep_size() > 1) {
    return Invalid("checkpoint.keep names more than one; a job has one result: best, or last");
  }
  if (spec.checkpoint().keep_size() == 1 &&
      spec.checkpoint().keep(0) == v1::Checkpoint::KEEP_BEST) {
    job->keep = runtime::Keep::kBest;
  }
  if (spec.has_ema()) {
    job->ema_decay = spec.ema().decay();
    if (!(*job->ema_decay > 0 && *job->ema_decay < 1)) {
      return Invalid(absl::StrCat("ema.decay is ", *job->ema_decay,
                                  "; give a number above 0 and below 1, such as 0.999"));
    }
  }
  const v1::Evaluate::Weights weights = spec.evaluate().weights();
  if (weights == v1::Evaluate::WEIGHTS_EMA && !spec.has_ema()) {
    return Invalid("evaluate.weights is ema, which needs ema.decay");
  }
  if (weights == v1::Evaluate::WEIGHTS_LAST && spec.has_ema()) {
    return Invalid("evaluate.weights is last, so that nothing reads the averages: remove ema");
  }
  // Which metrics there are is known where the job is prepared, and the ranges are checked there.
  return absl::OkStatus();
}

}  // namespace ebb::daemon
