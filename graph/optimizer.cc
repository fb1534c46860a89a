#include "graph/optimizer.h"

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

absl::StatusOr<ValueId> HyperValue(Graph& graph) {
  const TensorType type{DType::kF64, {4}};
  const ValueId found = graph.Find("ebb.hyper");
  if (!found.valid()) return graph.AddValue("ebb.hyper", type, Role::kScalar);
  const Value& value = graph.value(found);
  if (value.role == Role::kScalar && value.type == type) return found;
  return Invalid(absl::StrCat("the model has a ", Name(value.role), " ", ToString(value.type),
                              " named 'ebb.hyper', which is reserved"));
}

absl::Status AddUpdate(Graph& graph, const OptimizerSpec& spec, ValueId param, ValueId gradient,
                       ValueId hyper, NodeId mirror) {
  const std::string name = absl::StrCat("update/", graph.value(param).name);
  std::vector<ValueId> inputs = {param, gradient, hyper};
  Attrs attrs = {{"lr_scale", spec.lr_scale}, {"weight_decay", spec.weight_decay}};
  if (spec.kind == OptimizerKind::kSgd) {
    if (spec.momentum != 0) {
      inputs.push_back(AddSlot(graph, param, "velocity"));
      attrs.Set("momentum", spec.momentum);
      attrs.Set("dampening", spec.dampening);
      attrs.Set("nesterov", int64_t{spec.nesterov});
    }
    return graph.AddNode("SgdUpdate", name, inputs, attrs, Phase::kUpdate, mirror).status();
  }
  inputs.push_back(AddSlot(graph, param, "adam_m"));
  inputs.push_back(AddSlot(graph, param, "adam_v"));
  attrs.Set("beta1", spec.beta1);
  attrs.Set("beta2", spec.beta2);
  attrs.Set("epsilon", spec.epsilon);
  attrs.Set("decoupled", int64_t{spec.kind == OptimizerKind::kAdamW});
  return graph.AddNode("AdamUpdate", name, inputs, attrs, Phase::kUpdate, mirror).status();
}

}  // namespace ebb::graph
