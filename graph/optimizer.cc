#include "graph/optimizer.h"

#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/glob.h"
#include "base/status.h"

namespace ebb::graph {
namespace {

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

// Written so that NaN fails every test.
absl::Status Check(const OptimizerSpec& spec) {
  if (!(spec.lr_scale >= 0))
    return Invalid(absl::StrCat("lr_scale ", spec.lr_scale, " is not >= 0"));
  if (!(spec.weight_decay >= 0)) {
    return Invalid(absl::StrCat("weight_decay ", spec.weight_decay, " is not >= 0"));
  }
  if (spec.kind == OptimizerKind::kSgd) {
    if (!(spec.momentum >= 0)) {
      return Invalid(absl::StrCat("momentum ", spec.momentum, " is not >= 0"));
    }
    if (spec.nesterov && (spec.momentum == 0 || spec.dampening != 0)) {
      return Invalid("nesterov needs a momentum and no dampening");
    }
    return absl::OkStatus();
  }
  for (double beta : {spec.beta1, spec.beta2}) {
    if (!(beta >= 0 && beta < 1)) return Invalid(absl::StrCat("beta ", beta, " is not in [0,1)"));
  }
  if (!(spec.epsilon >= 0)) return Invalid(absl::StrCat("epsilon ", spec.epsilon, " is not >= 0"));
  return absl::OkStatus();
}

ValueId AddSlot(Graph& graph, ValueId param, absl::string_view suffix) {
  const Value& value = graph.value(param);
  const ValueId slot = graph.AddValue(absl::StrCat(value.name, "/", suffix), TensorType(value.type),
                                      Role::kOptState);
  graph.value(slot).slot_of = param;
  return slot;
}

}  // namespace

absl::StatusOr<std::vector<const OptimizerSpec*>> AssignOptimizers(const Graph& graph,
                                                                   const TrainingOptions& options) {
  EBB_RETURN_IF_ERROR(Annotate(Check(options.optimizer), "optimizer"));
  std::vector<bool> matched(options.groups.size());
  for (const ParamGroup& group : options.groups) {
    EBB_RETURN_IF_ERROR(
        Annotate(Check(group.optimizer), absl::StrCat("parameter group '", group.pattern, "'")));
  }
  std::vector<const OptimizerSpec*> specs(graph.values.size(), nullptr);
  for (const Value& value : graph.values) {
    if (value.role != Role::kParam) continue;
    const OptimizerSpec* spec = nullptr;
    for (size_t i = 0; i < options.groups.size(); ++i) {
      if (!GlobMatch(options.groups[i].pattern, value.name)) continue;
      matched[i] = true;
      if (spec == nullptr) spec = &options.groups[i].optimizer;
    }
    if (spec == nullptr) spec = &options.optimizer;
    if (!spec->frozen && IsFloat(value.type.dtype)) specs[value.id.index()] = spec;
  }
  for (size_t i = 0; i < options.groups.size(); ++i) {
    if (matched[i]) continue;
    return Invalid(absl::StrCat("parameter group '", options.groups[i].pattern,
                                "' matches no parameter of the model"));
  }
  return specs;
}

namespace {

// "ebb.hyper", added if it is not there yet.
absl::StatusOr<ValueId> HyperValue(Graph& graph) {
  const TensorType type{DType::kF64, {4}};
  const ValueId found = graph.Find("ebb.hyper");
  if (!found.valid()) return graph.AddValue("ebb.hyper", type, Role::kScalar);
  const Value& value = graph.value(found);
  if (value.role == Role::kScalar && value.type == type) return found;
  return Invalid(absl::StrCat("the model has a ", Name(value.role), " ", ToString(value.type),
                              " named 'ebb.hyper', which is reserved"));
}

absl::Status CheckClip(const ClipSpec& clip) {
  if (clip.norm && clip.value) {
    return Invalid("gradients are clipped by norm or by value; give one of the two");
  }
  const std::optional<double>& limit = clip.norm ? clip.norm : clip.value;
  if (!limit || (*limit > 0 && *limit <= std::numeric_limits<float>::max())) {
    return absl::OkStatus();
  }
  return Invalid(absl::StrCat("gradients are clipped by ", clip.norm ? "norm " : "value ", *limit,
                              "; it must be a finite number above 0"));
}

}  // namespace

absl::StatusOr<Updates> Updates::Create(Graph* graph, const TrainingOptions& options) {
  EBB_RETURN_IF_ERROR(CheckClip(options.clip));
  if (options.ema_decay && !(*options.ema_decay >= 0 && *options.ema_decay < 1)) {
    return Invalid(
        absl::StrCat("the moving average's decay ", *options.ema_decay, " is not in [0,1)"));
  }
  Updates updates(graph, options);
  EBB_ASSIGN_OR_RETURN(updates.specs_, AssignOptimizers(*graph, options));
  EBB_ASSIGN_OR_RETURN(updates.hyper_, HyperValue(*graph));
  return updates;
}

std::vector<bool> Updates::Trained() const {
  std::vector<bool> trained(graph_->values.size());
  for (size_t v = 0; v < specs_.size(); ++v) trained[v] = specs_[v] != nullptr;
  return trained;
}

absl::Status Updates::Add(ValueId param, ValueId gradient, NodeId mirror) {
  any_ = true;
  if (clip_.norm) {
    pending_.push_back({param, gradient, mirror});
    return absl::OkStatus();
  }
  if (clip_.value) {
    EBB_ASSIGN_OR_RETURN(
        gradient,
        graph_->Add("Clip", absl::StrCat("clip/", graph_->value(param).name), {gradient},
                    {{"min", -*clip_.value}, {"max", *clip_.value}}, Phase::kUpdate, mirror));
  }
  return Update({param, gradient, mirror});
}

absl::Status Updates::Finish() {
  if (!any_) {
    return Invalid("nothing is trained: the loss depends on no parameter that is not frozen");
  }
  if (pending_.empty()) return absl::OkStatus();
  std::vector<ValueId> gradients;
  gradients.reserve(pending_.size());
  for (const Pending& update : pending_) gradients.push_back(update.gradient);
  EBB_ASSIGN_OR_RETURN(const ValueId factor, graph_->Add("ClipFactor", "clip/factor", gradients,
                                                         {{"max_norm", *clip_.norm}},
                                                         Phase::kUpdate, pending_.back().mirror));
  for (Pending update : pending_) {
    EBB_ASSIGN_OR_RETURN(update.gradient,
                         graph_->Add("Mul", absl::StrCat("clip/", graph_->value(update.param).name),
                                     {update.gradient, factor}, {}, Phase::kUpdate, update.mirror));
    EBB_RETURN_IF_ERROR(Update(update));
  }
  return absl::OkStatus();
}

absl::Status Updates::Update(const Pending& update) {
  const OptimizerSpec& spec = *specs_[update.param.index()];
  const std::string name = absl::StrCat("update/", graph_->value(update.param).name);
  const auto slot = [&](absl::string_view suffix) {
    return AddSlot(*graph_, update.param, suffix);
  };
  std::vector<ValueId> inputs = {update.param, update.gradient, hyper_};
  Attrs attrs = {{"lr_scale", spec.lr_scale}, {"weight_decay", spec.weight_decay}};
  const bool is_sgd = spec.kind == OptimizerKind::kSgd;
  if (is_sgd && spec.momentum != 0) {
    inputs.push_back(slot("velocity"));
    attrs.Set("momentum", spec.momentum);
    attrs.Set("dampening", spec.dampening);
    attrs.Set("nesterov", int64_t{spec.nesterov});
  } else if (!is_sgd) {
    inputs.push_back(slot("adam_m"));
    inputs.push_back(slot("adam_v"));
    attrs.Set("beta1", spec.beta1);
    attrs.Set("beta2", spec.beta2);
    attrs.Set("epsilon", spec.epsilon);
    attrs.Set("decoupled", int64_t{spec.kind == OptimizerKind::kAdamW});
  }
  if (ema_decay_) {
    inputs.resize(is_sgd ? 4 : 5);  // a velocity may be absent
    inputs.push_back(slot("ema"));
    attrs.Set("ema_decay", *ema_decay_);
  }
  return graph_
      ->AddNode(is_sgd ? "SgdUpdate" : "AdamUpdate", name, std::move(inputs), std::move(attrs),
                Phase::kUpdate, update.mirror)
      .status();
}

}  // namespace ebb::graph
