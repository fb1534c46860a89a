// The optimizer and its parameter groups: wire -> native.
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "daemon/wire.h"
#include "daemon/wire_check.h"

namespace ebb::daemon {
namespace {

absl::Status Invalid(absl::string_view message) { return absl::InvalidArgumentError(message); }

// An optimizer as a rule for parameters, and the rate that it says.
struct Rule {
  graph::OptimizerSpec optimizer;
  std::optional<double> lr;
};

absl::Status BetasFromWire(absl::string_view field,
                           const google::protobuf::RepeatedField<double>& betas,
                           graph::OptimizerSpec* optimizer) {
  if (betas.empty()) return absl::OkStatus();
  if (betas.size() != 2)
    return Invalid(
        absl::StrCat(field, " has ", betas.size(), " numbers; give two, such as [0.9, 0.999]"));
  for (int i = 0; i < 2; ++i) {
    EBB_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, "[", i, "]"), betas.Get(i), 0, 1));
    if (betas.Get(i) == 1)
      return Invalid(absl::StrCat(field, "[", i, "] is 1; give a number below it"));
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

absl::Status SgdFromWire(absl::string_view field, const v1::Sgd& wire,
                         graph::OptimizerSpec* optimizer) {
  EBB_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, ".momentum"), wire.momentum(), 0));
  EBB_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, ".dampening"), wire.dampening(), 0));
  EBB_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, ".weight_decay"), wire.weight_decay(), 0));
  if (wire.nesterov() && (wire.momentum() == 0 || wire.dampening() != 0)) {
    return Invalid(absl::StrCat(
        field, ".nesterov needs momentum above 0 and no dampening; give those, or remove it"));
  }
  optimizer->kind = graph::OptimizerKind::kSgd;
  optimizer->momentum = wire.momentum();
  optimizer->dampening = wire.dampening();
  optimizer->nesterov = wire.nesterov();
  optimizer->weight_decay = wire.weight_decay();
  return absl::OkStatus();
}

// What the optimizers have in common that divide by a history of squares.
template <class Wire>
absl::Status AdaptiveFromWire(absl::string_view field, const Wire& wire, double epsilon,
                              graph::OptimizerSpec* optimizer) {
  optimizer->epsilon = wire.has_eps() ? wire.eps() : epsilon;
  optimizer->weight_decay = wire.weight_decay();
  EBB_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, ".eps"), optimizer->epsilon, 0));
  return CheckNumber(absl::StrCat(field, ".weight_decay"), optimizer->weight_decay, 0);
}

absl::Status RmsPropFromWire(absl::string_view field, const v1::RmsProp& wire,
                             graph::OptimizerSpec* optimizer) {
  optimizer->kind = graph::OptimizerKind::kRmsProp;
  optimizer->momentum = wire.momentum();
  optimizer->centered = wire.centered();
  if (wire.has_alpha()) optimizer->alpha = wire.alpha();
  EBB_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, ".alpha"), optimizer->alpha, 0, 1));
  EBB_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, ".momentum"), optimizer->momentum, 0));
  return AdaptiveFromWire(field, wire, 1e-8, optimizer);
}

template <class Wire>
std::optional<double> RateOf(const Wire& wire) {
  return wire.has_lr() ? std::optional<double>(wire.lr()) : std::nullopt;
}

// `Wire` is v1::Optimizer or v1::OptimizerRule, which have the same choices.
template <class Wire>
absl::StatusOr<Rule> RuleFromWire(absl::string_view parent, const Wire& wire) {
  const auto field = [&](absl::string_view kind) { return absl::StrCat(parent, ".", kind); };
  Rule rule;
  graph::OptimizerSpec& optimizer = rule.optimizer;
  if (wire.has_sgd()) {
    rule.lr = RateOf(wire.sgd());
    EBB_RETURN_IF_ERROR(SgdFromWire(field("sgd"), wire.sgd(), &optimizer));
  } else if (wire.has_adam()) {
    rule.lr = RateOf(wire.adam());
    optimizer.kind = graph::OptimizerKind::kAdam;
    EBB_RETURN_IF_ERROR(
        AdamFromWire(field("adam"), wire.adam(), wire.adam().weight_decay(), &optimizer));
  } else if (wire.has_adamw()) {
    rule.lr = RateOf(wire.adamw());
    optimizer.kind = graph::OptimizerKind::kAdamW;
    const double decay = wire.adamw().has_weight_decay() ? wire.adamw().weight_decay() : 0.01;
    EBB_RETURN_IF_ERROR(AdamFromWire(field("adamw"), wire.adamw(), decay, &optimizer));
  } else if (wire.has_adagrad()) {
    rule.lr = RateOf(wire.adagrad());
    optimizer.kind = graph::OptimizerKind::kAdagrad;
    optimizer.lr_decay = wire.adagrad().lr_decay();
    EBB_RETURN_IF_ERROR(CheckNumber(field("adagrad.lr_decay"), optimizer.lr_decay, 0));
    EBB_RETURN_IF_ERROR(AdaptiveFromWire(field("adagrad"), wire.adagrad(), 1e-10, &optimizer));
  } else if (wire.has_rmsprop()) {
    rule.lr = RateOf(wire.rmsprop());
    EBB_RETURN_IF_ERROR(RmsPropFromWire(field("rmsprop"), wire.rmsprop(), &optimizer));
  } else if (wire.has_rowwise_adagrad()) {
    rule.lr = RateOf(wire.rowwise_adagrad());
    optimizer.kind = graph::OptimizerKind::kRowwiseAdagrad;
    optimizer.sparse = wire.rowwise_adagrad().sparse();
    EBB_RETURN_IF_ERROR(
        AdaptiveFromWire(field("rowwise_adagrad"), wire.rowwise_adagrad(), 1e-8, &optimizer));
  } else {
    return Invalid(absl::StrCat(
        parent, " is missing; give sgd, adam, adamw, adagrad, rmsprop or rowwise_adagrad"));
  }
  if (rule.lr) EBB_RETURN_IF_ERROR(CheckNumber(field("lr"), *rule.lr, 0, runtime::kMostRate));
  return rule;
}

// The group's own optimizer, whose rate follows the job's in proportion.
absl::Status UseFromWire(absl::string_view field, const v1::JobSpec& spec,
                         const v1::OptimizerRule& wire, double job_rate,
                         graph::OptimizerSpec* optimizer) {
  EBB_ASSIGN_OR_RETURN(const Rule rule, RuleFromWire(field, wire));
  *optimizer = rule.optimizer;
  if (!rule.lr) return absl::OkStatus();
  if (spec.schedule().has_points()) {
    return Invalid(absl::StrCat(field,
                                " has an lr, but schedule.points gives the rates; give the "
                                "group an lr_scale instead"));
  }
  if (job_rate == 0) {
    return Invalid(absl::StrCat(field,
                                " has an lr, which follows the job's in proportion, but "
                                "that is 0; give the optimizer an lr above 0"));
  }
  optimizer->lr_scale = *rule.lr / job_rate;
  return absl::OkStatus();
}

absl::Status GroupsFromWire(const v1::JobSpec& spec, runtime::JobSpec* job) {
  const v1::Optimizer& wire = spec.optimizer();
  for (int i = 0; i < wire.groups_size(); ++i) {
    const v1::Optimizer::Group& group = wire.groups(i);
    const std::string field = absl::StrCat("optimizer.groups[", i, "]");
    if (group.match().empty())
      return Invalid(absl::StrCat(field, " needs match; give a glob of parameter names"));
    graph::ParamGroup native{group.match(), job->optimizer};
    if (group.has_use()) {
      if (group.frozen()) {
        return Invalid(absl::StrCat(field, " is frozen, so that it has no use; remove one"));
      }
      EBB_RETURN_IF_ERROR(UseFromWire(absl::StrCat(field, ".use"), spec, group.use(),
                                      job->schedule.base_lr, &native.optimizer));
    }
    if (group.has_lr_scale()) {
      EBB_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, ".lr_scale"), group.lr_scale(), 0));
      native.optimizer.lr_scale *= group.lr_scale();
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

// The rate where none is said, as PyTorch's; SGD has none.
double DefaultRate(graph::OptimizerKind kind) {
  return kind == graph::OptimizerKind::kAdam || kind == graph::OptimizerKind::kAdamW ? 1e-3 : 1e-2;
}

}  // namespace

absl::Status OptimizerFromWire(const v1::JobSpec& spec, runtime::JobSpec* job) {
  const v1::Optimizer& wire = spec.optimizer();
  EBB_ASSIGN_OR_RETURN(const Rule rule, RuleFromWire("optimizer", wire));
  if (wire.has_sgd() && !rule.lr && !spec.schedule().has_points()) {
    return Invalid("optimizer.sgd.lr is missing; give a learning rate, such as 0.1");
  }
  job->optimizer = rule.optimizer;
  job->schedule.base_lr = rule.lr.value_or(wire.has_sgd() ? 0 : DefaultRate(rule.optimizer.kind));
  EBB_RETURN_IF_ERROR(ClipFromWire(wire, &job->clip));
  return GroupsFromWire(spec, job);
}

}  // namespace ebb::daemon
