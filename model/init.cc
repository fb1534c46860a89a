// Initial weights as PyTorch draws them, from Philox instead of its generator.
#include "model/init.h"

#include <cmath>
#include <numbers>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/glob.h"
#include "base/philox.h"
#include "base/sha256.h"
#include "base/status.h"
#include "graph/op.h"
#include "model/host_tensor.h"

namespace ebb::model {
namespace {

using graph::Graph;
using graph::Node;
using graph::Role;
using graph::Value;

// What a parameter is to the op that uses it; the first use counts.
enum class Part { kUnknown, kWeight, kBias, kNormScale, kNormBias, kEmbedding, kMean, kVariance };

struct Usage {
  Part part = Part::kUnknown;
  double fan_in = 0, fan_out = 0;
};

using Usages = absl::flat_hash_map<ValueId, Usage>;

// Fans of the weight `w` in a product that contracts axis `contracted` and makes axis `made`.
Usage MatrixUsage(const Shape& w, size_t contracted, size_t made) {
  return {Part::kWeight, static_cast<double>(w[contracted]), static_cast<double>(w[made])};
}

void NoteProduct(const Graph& graph, const Node& node, Usages* usages) {
  const bool trans_a = node.attrs.Int("trans_a", 0) != 0;
  const bool trans_b = node.attrs.Int("trans_b", 0) != 0;
  const Shape& a = graph.value(node.inputs[0]).type.shape;
  const Shape& b = graph.value(node.inputs[1]).type.shape;
  const size_t ra = a.size(), rb = b.size();
  usages->try_emplace(node.inputs[1],
                      MatrixUsage(b, trans_b ? rb - 1 : rb - 2, trans_b ? rb - 2 : rb - 1));
  usages->try_emplace(node.inputs[0],
                      MatrixUsage(a, trans_a ? ra - 2 : ra - 1, trans_a ? ra - 1 : ra - 2));
}

// The usage of the weight of the layer that made `id`, looking through elementwise scaling.
std::optional<Usage> LayerOf(const Graph& graph, ValueId id, const Usages& usages) {
  const Value& value = graph.value(id);
  if (!value.producer.valid()) return std::nullopt;
  const Node& node = graph.node(value.producer);
  if (node.op->name != "MatMul" && node.op->name != "Gemm" && node.op->name != "Conv") {
    return std::nullopt;
  }
  for (ValueId input : {node.inputs[1], node.inputs[0]}) {
    const auto it = usages.find(input);
    if (graph.value(input).role == Role::kParam && it != usages.end()) return it->second;
  }
  return std::nullopt;
}

void NoteBias(ValueId bias, const Usage& layer, Usages* usages) {
  usages->try_emplace(bias, Usage{Part::kBias, layer.fan_in, layer.fan_out});
}

// Mul and Add by a vector: a normalisation's scale and bias, or the bias of a linear layer.
void NoteBroadcast(const Graph& graph, const Node& node, Usages* usages) {
  for (size_t i = 0; i < 2; ++i) {
    const Value& value = graph.value(node.inputs[i]);
    if (value.role != Role::kParam || value.type.shape.size() != 1) continue;
    if (node.op->name == "Mul") {
      usages->try_emplace(value.id, Usage{Part::kNormScale});
    } else if (const auto layer = LayerOf(graph, node.inputs[1 - i], *usages); layer.has_value()) {
      NoteBias(value.id, *layer, usages);
    } else {
      usages->try_emplace(value.id, Usage{Part::kNormBias});
    }
  }
}

// PyTorch draws all weights of a recurrent layer within 1 / sqrt(H): r, its bias, and the weight
// and biases of the projection in front.
void NoteRecurrent(const Graph& graph, const Node& node, Usages* usages) {
  const Shape& r = graph.value(node.inputs[1]).type.shape;
  const Usage weight = MatrixUsage(r, 1, 0);
  const Usage bias = {Part::kBias, weight.fan_in, weight.fan_out};
  const auto producer = [&](ValueId id) -> const Node* {
    const NodeId made_by = graph.value(id).producer;
    return made_by.valid() ? &graph.node(made_by) : nullptr;
  };
  usages->insert_or_assign(node.inputs[1], weight);
  if (node.op->name == "Gru" && node.inputs.size() > 2) {
    usages->insert_or_assign(node.inputs[2], bias);
  }
  const Node* projection = producer(node.inputs[0]);
  if (projection != nullptr && projection->op->name == "Reshape") {
    projection = producer(projection->inputs[0]);
  }
  if (projection == nullptr || projection->op->name != "Gemm") return;
  usages->insert_or_assign(projection->inputs[1], weight);
  if (projection->inputs.size() < 3) return;
  usages->insert_or_assign(projection->inputs[2], bias);
  const Node* sum = producer(projection->inputs[2]);
  if (sum == nullptr || sum->op->name != "Add") return;
  for (const ValueId part : sum->inputs) usages->insert_or_assign(part, bias);
}

Usages FindUsages(const Graph& graph) {
  Usages usages;
  for (const Node& node : graph.nodes) {
    const absl::string_view op = node.op->name;
    if (op == "Conv" || op == "ConvGradInput") {
      const Shape& w = graph.value(node.inputs[1]).type.shape;
      const double window = static_cast<double>(graph::NumElements(Shape(w.begin() + 2, w.end())));
      usages.try_emplace(node.inputs[1], Usage{Part::kWeight, static_cast<double>(w[1]) * window,
                                               static_cast<double>(w[0]) * window});
    } else if (op == "Gemm" || op == "MatMul") {
      NoteProduct(graph, node, &usages);
    } else if (op == "BatchNorm" || op == "BatchNormInference") {
      usages.try_emplace(node.inputs[1], Usage{Part::kNormScale});
      usages.try_emplace(node.inputs[2], Usage{Part::kNormBias});
      usages.try_emplace(node.inputs[3], Usage{Part::kMean});
      usages.try_emplace(node.inputs[4], Usage{Part::kVariance});
    } else if (op == "GroupNorm") {
      usages.try_emplace(node.inputs[1], Usage{Part::kNormScale});
      usages.try_emplace(node.inputs[2], Usage{Part::kNormBias});
    } else if (op == "LayerNorm") {
      usages.try_emplace(node.inputs[1], Usage{Part::kNormScale});
      if (node.inputs.size() > 2 && node.inputs[2].valid()) {
        usages.try_emplace(node.inputs[2], Usage{Part::kNormBias});
      }
    } else if (op == "Gather") {
      usages.try_emplace(node.inputs[0], Usage{Part::kEmbedding});
    } else if (op == "Mul" || op == "Add") {
      NoteBroadcast(graph, node, &usages);
    } else if (op == "Lstm" || op == "Gru") {
      NoteRecurrent(graph, node, &usages);
    }
    if ((op == "Conv" || op == "Gemm") && node.inputs.size() > 2 && node.inputs[2].valid()) {
      NoteBias(node.inputs[2], usages.at(node.inputs[1]), &usages);
    }
  }
  return usages;
}

// How one tensor is filled.
struct Fill {
  enum class Kind { kKeep, kConstant, kUniform, kNormal };
  Kind kind = Kind::kKeep;
  double value = 0;  // the constant, the bound, or the standard deviation
};
constexpr Fill Constant(double value) { return {Fill::Kind::kConstant, value}; }
constexpr Fill Uniform(double bound) { return {Fill::Kind::kUniform, bound}; }
constexpr Fill Normal(double std) { return {Fill::Kind::kNormal, std}; }

Fill DefaultFill(const Usage& usage) {
  switch (usage.part) {
    case Part::kWeight:
    case Part::kBias:
      return Uniform(usage.fan_in > 0 ? 1 / std::sqrt(usage.fan_in) : 0);
    case Part::kNormScale:
    case Part::kVariance:
      return Constant(1);
    case Part::kNormBias:
    case Part::kMean:
      return Constant(0);
    case Part::kEmbedding:
      return Normal(1);
    case Part::kUnknown:
      break;
  }
  return {};
}

absl::StatusOr<Fill> FillFor(const std::string& scheme, const Usage& usage) {
  const double in = usage.fan_in, sum = usage.fan_in + usage.fan_out;
  const bool has_fan = usage.part == Part::kWeight || usage.part == Part::kBias;
  const bool statistic = usage.part == Part::kMean || usage.part == Part::kVariance;
  Fill fill;
  if (scheme == "default") {
    return DefaultFill(usage);
  } else if (scheme == "zeros") {
    return Constant(0);
  } else if (scheme == "ones") {
    return Constant(1);
  } else if (scheme == "kaiming_uniform") {
    fill = Uniform(std::sqrt(6 / in));
  } else if (scheme == "kaiming_normal") {
    fill = Normal(std::sqrt(2 / in));
  } else if (scheme == "xavier_uniform") {
    fill = Uniform(std::sqrt(6 / sum));
  } else if (scheme == "xavier_normal") {
    fill = Normal(std::sqrt(2 / sum));
  } else if (absl::StartsWith(scheme, "normal:")) {
    double std = 0;
    if (!absl::SimpleAtod(absl::StripPrefix(scheme, "normal:"), &std) || !std::isfinite(std) ||
        std < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("reinit scheme '", scheme, "': the deviation must be a number >= 0"));
    }
    return statistic ? DefaultFill(usage) : Normal(std);
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown reinit scheme '", scheme,
                     "'; use default, kaiming_uniform, kaiming_normal, "
                     "xavier_uniform, xavier_normal, zeros, ones or normal:STD"));
  }
  // What has no fan (scales, statistics, embeddings) is drawn as PyTorch's layers do.
  return has_fan && in > 0 ? fill : DefaultFill(usage);
}

// A stream of draws that depends on the seed and the parameter's name only.
class Draws {
 public:
  Draws(uint64_t seed, absl::string_view name) : key_(PhiloxKeyFrom(seed)) {
    // The first 64 bits of the name's digest.
    const std::string digest = Sha256Hex(name);
    uint32_t high = 0, low = 0;
    const bool parsed = absl::SimpleHexAtoi(digest.substr(0, 8), &high) &&
                        absl::SimpleHexAtoi(digest.substr(8, 8), &low);
    (void)parsed;  // a digest is hexadecimal
    name_ = {high, low};
  }
  // In [0, 1), with 24 bits.
  double Next() {
    if (used_ == 4) {
      words_ = Philox(
          {static_cast<uint32_t>(block_), static_cast<uint32_t>(block_ >> 32), name_[0], name_[1]},
          key_);
      ++block_;
      used_ = 0;
    }
    return UniformFloat(words_[used_++]);
  }
  // Box-Muller on two uniforms.
  double NextNormal() {
    const double radius = std::sqrt(-2 * std::log(1 - Next()));
    return radius * std::cos(2 * std::numbers::pi * Next());
  }

 private:
  PhiloxKey key_;
  std::array<uint32_t, 2> name_{};
  PhiloxCounter words_{};
  uint64_t block_ = 0;
  size_t used_ = 4;
};

void Apply(const Fill& fill, Draws draws, HostTensor* tensor) {
  VisitDType(tensor->type.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (T& element : tensor->as<T>()) {
      double value = fill.value;
      if (fill.kind == Fill::Kind::kUniform) value *= 2 * draws.Next() - 1;
      if (fill.kind == Fill::Kind::kNormal) value *= draws.NextNormal();
      element = static_cast<T>(value);
    }
  });
}

// How every parameter and buffer is filled.
using Fills = std::vector<std::pair<std::string, Fill>>;
absl::StatusOr<Fills> FillsOf(const Graph& forward, const std::vector<ReinitRule>& rules) {
  const Usages usages = FindUsages(forward);
  std::vector<bool> matched(rules.size(), false);
  Fills fills;
  for (const Value& value : forward.values) {
    if (value.role != Role::kParam && value.role != Role::kBuffer) continue;
    const auto it = usages.find(value.id);
    const Usage usage = it == usages.end() ? Usage{} : it->second;
    Fill fill;
    for (size_t i = 0; i < rules.size(); ++i) {
      if (!GlobMatch(rules[i].pattern, value.name)) continue;
      matched[i] = true;
      EBB_ASSIGN_OR_RETURN(fill, FillFor(rules[i].scheme, usage));
    }
    fills.emplace_back(value.name, fill);
  }
  for (size_t i = 0; i < rules.size(); ++i) {
    if (!matched[i]) {
      return absl::InvalidArgumentError(absl::StrCat("reinit pattern '", rules[i].pattern,
                                                     "' matches no parameter of the model"));
    }
  }
  return fills;
}

}  // namespace

absl::Status CheckRules(const Graph& forward, const std::vector<ReinitRule>& rules) {
  return FillsOf(forward, rules).status();
}

absl::Status Reinitialize(const Graph& forward, const std::vector<ReinitRule>& rules, uint64_t seed,
                          graph::TensorMap* weights) {
  EBB_ASSIGN_OR_RETURN(const Fills fills, FillsOf(forward, rules));
  for (const auto& [name, fill] : fills) {
    if (fill.kind == Fill::Kind::kKeep) continue;  // its value, or none
    // A graph that came without weights has no entry yet.
    const auto it =
        weights->try_emplace(name, HostTensor::Zeros(forward.value(forward.Find(name)).type)).first;
    Apply(fill, Draws(seed, name), &it->second);
  }
  return absl::OkStatus();
}

}  // namespace ebb::model
