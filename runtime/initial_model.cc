#include "runtime/initial_model.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/glob.h"
#include "base/status.h"
#include "graph/freeze.h"
#include "graph/mixed_precision.h"
#include "graph/tf32.h"
#include "model/init.h"
#include "model/zoo/zoo.h"

namespace ebb::runtime {
namespace {

using graph::DType;
using graph::Graph;
using graph::HostTensor;
using graph::Role;

bool HasInitialValue(const graph::Value& value) {
  return value.role == Role::kParam || value.role == Role::kBuffer;
}

absl::StatusOr<model::ImportedModel> Forward(const JobSpec& spec) {
  if (spec.model.onnx != nullptr) {
    model::ImportOptions options = spec.model.import;
    options.batch_size = spec.batch_size;
    auto imported = model::ImportOnnx(*spec.model.onnx, options);
    if (!imported.ok()) return Annotate(imported.status(), "model.onnx");
    return imported;
  }
  model::ImportedModel imported;
  if (!spec.model.zoo.empty()) {
    auto zoo = model::BuildZooModel(spec.model.zoo, spec.batch_size);
    if (!zoo.ok()) return Annotate(zoo.status(), "model.zoo");
    imported.graph = std::move(zoo->graph);
    return imported;
  }
  if (spec.model.graph == nullptr) {
    return absl::InvalidArgumentError("model: give onnx, graph or zoo");
  }
  imported.graph = *spec.model.graph;
  EBB_RETURN_IF_ERROR(Annotate(graph::Verify(imported.graph), "model.graph"));
  return imported;
}

bool IsDrawn(const std::vector<model::ReinitRule>& rules, const std::string& name) {
  return std::any_of(rules.begin(), rules.end(),
                     [&](const model::ReinitRule& rule) { return GlobMatch(rule.pattern, name); });
}

// PyTorch's state dicts count the batches of each batch norm; nothing reads that here.
bool IsCounter(absl::string_view name) { return absl::EndsWith(name, "num_batches_tracked"); }

// A file may hold some of the values only; where reinit does not draw the others that is a warning,
// since it may be a mistake. What reinit draws may be in the file in any shape.
absl::Status Load(const JobSpec& spec, model::ImportedModel* imported) {
  const graph::TensorMap& weights = *spec.model.weights;
  const std::vector<model::ReinitRule>& rules = spec.model.reinit;
  const Graph& graph = imported->graph;
  for (const auto& [name, tensor] : weights) {
    const ValueId id = graph.Find(name);
    if (!id.valid()) {
      if (IsCounter(name)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("model.weights: '", name, "' is no parameter or buffer of the model"));
    }
    if (graph.value(id).type == tensor.type) {
      imported->weights.insert_or_assign(name, tensor);
    } else if (!IsDrawn(rules, name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model.weights: '", name, "' is ", graph::ToString(tensor.type), ", the model has ",
          graph::ToString(graph.value(id).type), "; draw it anew with model.reinit: {\"", name,
          "\": default}, or give the weights of this model"));
    }
  }
  int all = 0, missing = 0;
  std::string first;
  for (const graph::Value& value : graph.values) {
    if (!HasInitialValue(value)) continue;
    ++all;
    if (weights.contains(value.name) || IsDrawn(rules, value.name)) continue;
    if (++missing == 1) first = value.name;
  }
  if (missing > 0 && spec.predict) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.weights lacks ", missing, " of the model's ", all,
                     " parameters and buffers, such as '", first,
                     "', which nothing has trained; give the weights of the whole model"));
  }
  if (missing > 0) {
    imported->warnings.push_back(absl::StrCat("model.weights lacks ", missing, " of the model's ",
                                              all, " parameters and buffers, such as '", first,
                                              "'; they begin as the model file says"));
  }
  return absl::OkStatus();
}

template <class T>
int64_t FirstNotFinite(const HostTensor& tensor) {
  const auto values = tensor.as<T>();
  const auto it =
      std::find_if_not(values.begin(), values.end(), [](T v) { return std::isfinite(v); });
  return it == values.end() ? -1 : it - values.begin();
}

absl::Status CheckFinite(const std::string& name, const HostTensor& tensor) {
  int64_t at = -1;
  if (tensor.type.dtype == DType::kF32) at = FirstNotFinite<float>(tensor);
  if (tensor.type.dtype == DType::kF64) at = FirstNotFinite<double>(tensor);
  if (at < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model: the initial value of '", name,
                                                 "' is not finite at element ", at,
                                                 "; repair the weights or draw them with reinit"));
}

}  // namespace

absl::StatusOr<model::ImportedModel> InitialModel(const JobSpec& spec, Values values,
                                                  Bytes memory) {
  if (spec.predict && !spec.model.reinit.empty()) {
    return absl::InvalidArgumentError(
        "model.reinit draws parameters anew, which nothing would have trained: to predict, give "
        "trained weights (ebb predict --job or --weights) and no reinit");
  }
  EBB_ASSIGN_OR_RETURN(model::ImportedModel imported, Forward(spec));
  if (!spec.model.freeze_stats.empty()) {
    auto frozen = graph::FreezeStatistics(imported.graph, spec.model.freeze_stats);
    if (!frozen.ok()) return Annotate(frozen.status(), "model.bn.freeze_stats");
    imported.graph = *std::move(frozen);
  }
  Bytes state;
  for (const graph::Value& value : imported.graph.values) {
    if (HasInitialValue(value)) state += value.type.bytes();
  }
  if (memory > Bytes(0) && state > memory) {
    return absl::ResourceExhaustedError(
        absl::StrCat("never: needs at least ", FormatBytes(state),
                     " for the model's parameters and buffers alone, at most ", FormatBytes(memory),
                     " of the pool; it does not fit at any batch_size"));
  }
  if (spec.model.weights != nullptr) {
    EBB_RETURN_IF_ERROR(Load(spec, &imported));
  }
  const absl::Status reinit = values == Values::kMake
                                  ? model::Reinitialize(imported.graph, spec.model.reinit,
                                                        spec.seed_init, &imported.weights)
                                  : model::CheckRules(imported.graph, spec.model.reinit);
  EBB_RETURN_IF_ERROR(Annotate(reinit, "model.reinit"));
  if (spec.precision == graph::Precision::kTf32) {
    imported.graph = graph::AllowTf32(std::move(imported.graph));
  }
  if (spec.precision == graph::Precision::kBf16) {
    EBB_ASSIGN_OR_RETURN(imported.graph, graph::ToMixedPrecision(imported.graph));
  }
  return imported;
}

absl::Status CheckInitialValues(const Graph& graph, const graph::TensorMap& weights) {
  for (const graph::Value& value : graph.values) {
    if (!HasInitialValue(value)) continue;
    const auto it = weights.find(value.name);
    if (it == weights.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("model: '", value.name,
                       "' has no initial value; give model.weights or a model.reinit rule for it"));
    }
    if (it->second.type != value.type) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model: the value of '", value.name, "' is ", graph::ToString(it->second.type),
          ", the graph needs ", graph::ToString(value.type)));
    }
    EBB_RETURN_IF_ERROR(CheckFinite(value.name, it->second));
  }
  return absl::OkStatus();
}

}  // namespace ebb::runtime
