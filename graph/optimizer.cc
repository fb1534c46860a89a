#include "graph/optimizer.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/glob.h"
#include "base/status.h"
#include "graph/op.h"

namespace ebb::graph {
namespace {

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

// Written so that NaN fails every test.
absl::Status Check(const OptimizerSpec& spec) {
  if (!(spec.lr_scale >= 0))
    return Invalid(absl::StrCat("lr_scale ", spec.lr_scale, " is not >= 0; give 0 or more"));
  if (!(spec.weight_decay >= 0)) {
    return Invalid(
        absl::StrCat("weight_decay ", spec.weight_decay, " is not >= 0; give 0 or more"));
  }
  if (!(spec.epsilon >= 0))
    return Invalid(absl::StrCat("epsilon ", spec.epsilon, " is not >= 0; give 0 or more"));
  switch (spec.kind) {
    case OptimizerKind::kSgd:
      if (!(spec.momentum >= 0)) {
        return Invalid(absl::StrCat("momentum ", spec.momentum, " is not >= 0; give 0 or more"));
      }
      if (spec.nesterov && (spec.momentum == 0 || spec.dampening != 0)) {
        return Invalid("nesterov needs a momentum and no dampening; give those, or remove it");
      }
      return absl::OkStatus();
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      for (double beta : {spec.beta1, spec.beta2}) {
        if (!(beta >= 0 && beta < 1)) {
          return Invalid(
              absl::StrCat("beta ", beta, " is not in [0,1); give 0 or more, and less than 1"));
        }
      }
      return absl::OkStatus();
    case OptimizerKind::kAdagrad:
      if (spec.lr_decay >= 0) return absl::OkStatus();
      return Invalid(absl::StrCat("lr_decay ", spec.lr_decay, " is not >= 0; give 0 or more"));
    case OptimizerKind::kRmsProp:
      if (!(spec.momentum >= 0)) {
        return Invalid(absl::StrCat("momentum ", spec.momentum, " is not >= 0; give 0 or more"));
      }
      if (spec.alpha >= 0 && spec.alpha <= 1) return absl::OkStatus();
      return Invalid(absl::StrCat("alpha ", spec.alpha, " is not in [0,1]; give a number that is"));
    case OptimizerKind::kRowwiseAdagrad:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

ValueId AddSlot(Graph& graph, ValueId param, absl::string_view suffix, TensorType type) {
  const ValueId slot = graph.AddValue(absl::StrCat(graph.value(param).name, "/", suffix),
                                      std::move(type), Role::kOptState);
  graph.value(slot).slot_of = param;
  return slot;
}

absl::Status CheckRows(const OptimizerSpec& spec, const Value& param) {
  if (spec.kind != OptimizerKind::kRowwiseAdagrad || !param.type.shape.empty()) {
    return absl::OkStatus();
  }
  return Invalid(absl::StrCat("row-wise Adagrad needs parameters with rows; '", param.name, "' is ",
                              ToString(param.type), "; give it another optimizer by a group"));
}

}  // namespace

const OptimizerSpec& OptimizerOf(const TrainingOptions& options, absl::string_view param) {
  const auto group =
      std::find_if(options.groups.begin(), options.groups.end(),
                   [&](const ParamGroup& each) { return GlobMatch(each.pattern, param); });
  return group == options.groups.end() ? options.optimizer : group->optimizer;
}

absl::Status CheckLookedUp(const Graph& forward, const TrainingOptions& options) {
  std::vector<bool> looked_up(forward.values.size());
  for (const Node& node : forward.nodes) {
    if (node.op->name != "Gather" && node.op->name != "EmbeddingBag") continue;
    ValueId table = node.inputs[0];
    while (forward.value(table).producer.valid()) {
      const Node& producer = forward.node(forward.value(table).producer);
      const bool shows = producer.op->is_view || producer.op->name == "Identity" ||
                         producer.op->name == "Cast" || producer.op->name == "Transpose";
      if (!shows) break;
      table = producer.inputs[0];
    }
    looked_up[table.index()] = true;
  }
  std::vector<std::string> others;
  for (const Value& value : forward.values) {
    if (value.role != Role::kParam || looked_up[value.id.index()]) continue;
    const OptimizerSpec& spec = OptimizerOf(options, value.name);
    const bool by_rows = spec.kind == OptimizerKind::kRowwiseAdagrad && spec.sparse;
    if (by_rows && !spec.frozen) others.push_back(absl::StrCat("'", value.name, "'"));
  }
  if (others.empty()) return absl::OkStatus();
  constexpr size_t kShown = 4;
  const size_t more = others.size() > kShown ? others.size() - kShown : 0;
  others.resize(others.size() - more);
  return Invalid(absl::StrCat(
      "rowwise_adagrad with sparse is for tables that the model looks rows up in; it does not in ",
      absl::StrJoin(others, ", "), more > 0 ? absl::StrCat(" and ", more, " more") : "",
      "; match the tables alone by a group of the optimizer, or leave out sparse"));
}

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
    for (size_t i = 0; i < options.groups.size(); ++i) {
      if (GlobMatch(options.groups[i].pattern, value.name)) matched[i] = true;
    }
    const OptimizerSpec& spec = OptimizerOf(options, value.name);
    if (spec.frozen || !IsFloat(value.type.dtype)) continue;
    EBB_RETURN_IF_ERROR(CheckRows(spec, value));
    specs[value.id.index()] = &spec;
  }
  for (size_t i = 0; i < options.groups.size(); ++i) {
    if (matched[i]) continue;
    return Invalid(
        absl::StrCat("parameter group '", options.groups[i].pattern,
                     "' matches no parameter of the model; correct it, or remove the group"));
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
                              " named 'ebb.hyper', which is reserved; rename it"));
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
    return Invalid(absl::StrCat("the moving average's decay ", *options.ema_decay,
                                " is not in [0,1); give 0 or more, and less than 1"));
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
    return Invalid(
        "nothing is trained: the loss depends on no parameter that is not frozen; train some of "
        "those that it depends on");
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

namespace {

constexpr char kRowSum[] = "row_sum";

// The update node of a parameter, on its way.
struct Rule {
  absl::string_view op;
  std::vector<ValueId> inputs;
  Attrs attrs;
  size_t ema = 0;  // which input is the moving average
};

Rule SgdRule(const OptimizerSpec& spec, const std::function<ValueId(absl::string_view)>& slot) {
  Rule rule{.op = "SgdUpdate", .ema = 4};
  if (spec.momentum == 0) return rule;
  rule.inputs = {slot("velocity")};
  rule.attrs = {{"momentum", spec.momentum},
                {"dampening", spec.dampening},
                {"nesterov", int64_t{spec.nesterov}}};
  return rule;
}

Rule RmsPropRule(const OptimizerSpec& spec, const std::function<ValueId(absl::string_view)>& slot) {
  Rule rule{.op = "RmsPropUpdate", .ema = 6};
  rule.inputs = {slot("square"), spec.momentum > 0 ? slot("velocity") : ValueId(),
                 spec.centered ? slot("mean") : ValueId()};
  rule.attrs = {{"alpha", spec.alpha},
                {"epsilon", spec.epsilon},
                {"momentum", spec.momentum},
                {"centered", int64_t{spec.centered}}};
  return rule;
}

// What comes after param, grad and hyper. `slot` makes slots of the parameter's type, `row_slot`
// one of a number a row.
Rule RuleOf(const OptimizerSpec& spec, const std::function<ValueId(absl::string_view)>& slot,
            const std::function<ValueId(absl::string_view)>& row_slot) {
  switch (spec.kind) {
    case OptimizerKind::kSgd:
      return SgdRule(spec, slot);
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return {.op = "AdamUpdate",
              .inputs = {slot("adam_m"), slot("adam_v")},
              .attrs = {{"beta1", spec.beta1},
                        {"beta2", spec.beta2},
                        {"epsilon", spec.epsilon},
                        {"decoupled", int64_t{spec.kind == OptimizerKind::kAdamW}}},
              .ema = 5};
    case OptimizerKind::kAdagrad:
      return {.op = "AdagradUpdate",
              .inputs = {slot("adagrad_sum")},
              .attrs = {{"epsilon", spec.epsilon}, {"lr_decay", spec.lr_decay}},
              .ema = 4};
    case OptimizerKind::kRmsProp:
      return RmsPropRule(spec, slot);
    case OptimizerKind::kRowwiseAdagrad:
      return {.op = "RowwiseAdagradUpdate",
              .inputs = {row_slot(kRowSum)},
              .attrs = {{"epsilon", spec.epsilon}, {"sparse", int64_t{spec.sparse}}},
              .ema = 4};
  }
  return {};
}

// The gradient of a table that look-ups alone make, all of them in one node, the newest.
bool IsOfLookUps(const Graph& graph, ValueId gradient) {
  if (graph.nodes.empty()) return false;
  const Node& newest = graph.nodes.back();
  if (newest.outputs.size() != 1 || newest.outputs[0] != gradient) return false;
  return newest.op->name == "EmbeddingBagGrad" ||
         (newest.op->name == "GatherGrad" && newest.attrs.Int("axis", 0) == 0);
}

}  // namespace

// In place of the newest node, the gradient of the table: what would have been that becomes the
// slot.
absl::Status Updates::UpdateRows(const Pending& update) {
  const OptimizerSpec& spec = *specs_[update.param.index()];
  const Value table = graph_->value(update.param);
  const Node look_ups = std::move(graph_->nodes.back());
  graph_->nodes.pop_back();
  Value& sum = graph_->value(update.gradient);
  sum.type = {table.type.dtype, {table.type.shape[0]}};
  sum.role = Role::kOptState;
  sum.producer = NodeId();
  sum.slot_of = update.param;
  graph_->Rename(update.gradient, absl::StrCat(table.name, "/", kRowSum));
  std::vector<ValueId> inputs = {update.param, look_ups.inputs[0], hyper_, update.gradient,
                                 look_ups.inputs[1]};
  Attrs attrs = {
      {"epsilon", spec.epsilon}, {"lr_scale", spec.lr_scale}, {"weight_decay", spec.weight_decay}};
  if (look_ups.op->name == "EmbeddingBagGrad") {
    inputs.push_back(look_ups.inputs[2]);
    attrs.Set("mode", look_ups.attrs.Str("mode"));
    attrs.Set("include_last_offset", look_ups.attrs.Int("include_last_offset", 0));
  }
  return graph_
      ->AddNode("SparseRowwiseAdagradUpdate", absl::StrCat("update/", table.name),
                std::move(inputs), std::move(attrs), Phase::kUpdate, update.mirror)
      .status();
}

absl::Status Updates::Update(const Pending& update) {
  const OptimizerSpec& spec = *specs_[update.param.index()];
  const std::string name = absl::StrCat("update/", graph_->value(update.param).name);
  const TensorType type = graph_->value(update.param).type;
  std::vector<ValueId> inputs = {update.param, update.gradient, hyper_};
  // A table's gradient is never made where its rows can be updated from what they are looked up
  // for.
  const bool by_rows = spec.kind == OptimizerKind::kRowwiseAdagrad && spec.sparse && !ema_decay_ &&
                       IsOfLookUps(*graph_, update.gradient);
  if (by_rows) return UpdateRows(update);
  const auto slot = [&](absl::string_view suffix) {
    return AddSlot(*graph_, update.param, suffix, type);
  };
  const auto row_slot = [&](absl::string_view suffix) {
    return AddSlot(*graph_, update.param, suffix, {type.dtype, {type.shape[0]}});
  };
  Rule rule = RuleOf(spec, slot, row_slot);
  inputs.insert(inputs.end(), rule.inputs.begin(), rule.inputs.end());
  rule.attrs.Set("lr_scale", spec.lr_scale);
  rule.attrs.Set("weight_decay", spec.weight_decay);
  if (ema_decay_) {
    inputs.resize(rule.ema);  // slots before it may be absent
    inputs.push_back(slot("ema"));
    rule.attrs.Set("ema_decay", *ema_decay_);
  }
  return graph_
      ->AddNode(rule.op, name, std::move(inputs), std::move(rule.attrs), Phase::kUpdate,
                update.mirror)
      .status();
}

}  // namespace ebb::graph
