#include "model/fuse.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "graph/op.h"
#include "graph/rewrite.h"
#include "model/fuse_match.h"
#include "model/host_tensor.h"

namespace ebb::model {
namespace {

using graph::Attrs;
using graph::Graph;
using graph::HostTensor;
using graph::Node;
using graph::Shape;

// Numbers of a file went through a float.
bool Is(double number, double expected) {
  return std::abs(number - expected) <= 1e-5 * std::abs(expected);
}

// What takes the place of a root. A scale that is not in the graph is all ones.
struct Fused {
  absl::string_view op;
  std::vector<ValueId> inputs;
  Attrs attrs;
  Parts parts;
  std::optional<graph::TensorType> ones;  // becomes input 1
};
using Match = std::optional<Fused> (*)(const GraphView&, const Node& root);

// ---- SiLU: x sigmoid(x).

std::optional<Fused> Silu(const GraphView& view, const Node& root) {
  if (root.op->name != "Mul") return std::nullopt;
  for (size_t i : {size_t{0}, size_t{1}}) {
    Parts parts;
    const Node* sigmoid = view.Take(root.inputs[i], "Sigmoid", &parts);
    if (sigmoid != nullptr && sigmoid->inputs[0] == root.inputs[1 - i]) {
      return Fused{"Silu", {root.inputs[1 - i]}, {}, std::move(parts), {}};
    }
  }
  return std::nullopt;
}

// ---- GELU: x Phi(x), as number * x * affine(f(argument of x)).

// u = x / sqrt(2)
bool IsErfArgument(const GraphView& view, ValueId u, ValueId x, Parts* parts) {
  const GraphView::Affine affine = view.AffineOf(u, parts);
  return affine.base == x && affine.shift == 0 && Is(affine.scale, std::sqrt(0.5));
}

// u = sqrt(2 / pi) (x + 0.044715 x^3), as a sum or as x (1 + 0.044715 x^2)
bool IsTanhArgument(const GraphView& view, ValueId u, ValueId x, Parts* parts) {
  constexpr double kCubic = 0.044715;
  const double outer = std::sqrt(2 / M_PI);
  const GraphView::Product product = view.ProductOf(u, parts);
  if (!Is(product.number, outer)) return false;
  if (product.factors.size() == 1) {
    const Node* sum = view.Take(product.factors[0], "Add", parts);
    for (size_t i : {size_t{0}, size_t{1}}) {
      if (sum == nullptr || sum->inputs[i] != x) continue;
      const GraphView::Product cubic = view.ProductOf(sum->inputs[1 - i], parts);
      return Is(cubic.number, kCubic) && cubic.factors == std::vector<ValueId>{x, x, x};
    }
    return false;
  }
  if (product.factors.size() != 2) return false;
  const size_t i = product.factors[0] == x ? 1 : 0;
  if (product.factors[1 - i] != x) return false;
  const GraphView::Affine affine = view.AffineOf(product.factors[i], parts);
  const GraphView::Product square = view.ProductOf(affine.base, parts);
  return affine.shift == 1 && Is(affine.scale * square.number, kCubic) &&
         square.factors == std::vector<ValueId>{x, x};
}

std::optional<Fused> Gelu(const GraphView& view, const Node& root) {
  if (root.op->name != "Mul" && root.op->name != "Scale") return std::nullopt;
  Parts outer;
  const GraphView::Product product = view.ProductOf(root.outputs[0], &outer);
  if (product.factors.size() != 2) return std::nullopt;
  for (size_t i : {size_t{0}, size_t{1}}) {
    const ValueId x = product.factors[1 - i];
    Parts parts = outer;
    const GraphView::Affine affine = view.AffineOf(product.factors[i], &parts);
    if (!Is(product.number * affine.scale, 0.5) || !Is(affine.shift, affine.scale)) continue;
    const bool erf = view.MadeBy(affine.base, "Erf") != nullptr;
    const Node* f = view.Take(affine.base, erf ? "Erf" : "Tanh", &parts);
    if (f == nullptr || !(erf ? IsErfArgument : IsTanhArgument)(view, f->inputs[0], x, &parts)) {
      continue;
    }
    const std::string form = erf ? "none" : "tanh";
    return Fused{"Gelu", {x}, {{"approximate", form}}, std::move(parts), {}};
  }
  return std::nullopt;
}

// ---- Normalisations over the last axes.

// The first of the axes if they are the last ones of `rank` and stay as ones.
std::optional<int64_t> TrailingAxis(const Node& mean, size_t rank) {
  const std::vector<int64_t> axes = mean.attrs.Ints("axes");
  if (axes.empty() || mean.attrs.Int("keepdims", 1) == 0) return std::nullopt;
  const auto first = static_cast<int64_t>(rank - axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != first + static_cast<int64_t>(i)) return std::nullopt;
  }
  return first;
}

// deviation = sqrt(mean over the last axes of x^2 + epsilon)
struct Deviation {
  int64_t axis = 0;
  double epsilon = 0;
};
std::optional<Deviation> DeviationOf(const GraphView& view, ValueId root, ValueId x, Parts* parts) {
  const Node* sqrt = view.Take(root, "Sqrt", parts);
  if (sqrt == nullptr) return std::nullopt;
  const GraphView::Affine shifted = view.AffineOf(sqrt->inputs[0], parts);
  const Node* mean = view.Take(shifted.base, "ReduceMean", parts);
  if (mean == nullptr || shifted.scale != 1 || shifted.shift < 0) return std::nullopt;
  const Node* square = view.Take(mean->inputs[0], "Mul", parts);
  if (square == nullptr || square->inputs[0] != x || square->inputs[1] != x) return std::nullopt;
  const auto axis = TrailingAxis(*mean, view.graph().value(x).type.shape.size());
  if (!axis.has_value()) return std::nullopt;
  return Deviation{*axis, shifted.shift};
}

// normal = x / deviation, or x * (1 / deviation); gives x.
std::optional<ValueId> NormalOf(const GraphView& view, ValueId normal, Deviation* deviation,
                                Parts* parts) {
  if (const Node* div = view.MadeBy(normal, "Div")) {
    parts->push_back(div->id);
    const auto found = DeviationOf(view, div->inputs[1], div->inputs[0], parts);
    if (!found.has_value()) return std::nullopt;
    *deviation = *found;
    return div->inputs[0];
  }
  const Node* mul = view.Take(normal, "Mul", parts);
  if (mul == nullptr) return std::nullopt;
  for (size_t i : {size_t{0}, size_t{1}}) {
    Parts inner = *parts;
    double one = 0;
    const Node* inverse = view.Take(mul->inputs[i], "Reciprocal", &inner);
    if (inverse == nullptr) {
      inverse = view.Take(mul->inputs[i], "Div", &inner);
      if (inverse == nullptr || !view.IsNumber(inverse->inputs[0], &one) || one != 1) continue;
    }
    const auto found = DeviationOf(view, inverse->inputs.back(), mul->inputs[1 - i], &inner);
    if (!found.has_value()) continue;
    *deviation = *found;
    *parts = std::move(inner);
    return mul->inputs[1 - i];
  }
  return std::nullopt;
}

// `value` = a op b where one of the two has the shape of what is normalised (a weight); gives the
// other.
std::optional<ValueId> Without(const GraphView& view, ValueId value, absl::string_view op,
                               ValueId* weight, Parts* parts) {
  const Node* node = view.MadeBy(value, op);
  if (node == nullptr) return std::nullopt;
  const Shape& shape = view.graph().value(value).type.shape;
  for (size_t i : {size_t{1}, size_t{0}}) {
    const graph::Value& candidate = view.graph().value(node->inputs[i]);
    const graph::Value& other = view.graph().value(node->inputs[1 - i]);
    const Shape& part = candidate.type.shape;
    const bool leaf = !candidate.producer.valid();
    if (!leaf || part.empty() || part.size() >= shape.size() || other.type.shape != shape ||
        !std::equal(part.rbegin(), part.rend(), shape.rbegin())) {
      continue;
    }
    parts->push_back(node->id);
    *weight = node->inputs[i];
    return node->inputs[1 - i];
  }
  return std::nullopt;
}

// d = x - mean(x) over the axes from `axis` on; gives x.
std::optional<ValueId> Uncentred(const GraphView& view, ValueId d, int64_t axis, Parts* parts) {
  const Node* sub = view.Take(d, "Sub", parts);
  if (sub == nullptr) return std::nullopt;
  const Node* mean = view.Take(sub->inputs[1], "ReduceMean", parts);
  if (mean == nullptr || mean->inputs[0] != sub->inputs[0]) return std::nullopt;
  const size_t rank = view.graph().value(sub->inputs[0]).type.shape.size();
  if (TrailingAxis(*mean, rank) != axis) return std::nullopt;
  return sub->inputs[0];
}

std::optional<Fused> Normalisation(const GraphView& view, const Node& root) {
  Fused fused;
  ValueId scale, bias;
  ValueId at = root.outputs[0];
  if (const auto under = Without(view, at, "Add", &bias, &fused.parts)) at = *under;
  if (const auto under = Without(view, at, "Mul", &scale, &fused.parts)) at = *under;
  Deviation deviation;
  const auto normalised = NormalOf(view, at, &deviation, &fused.parts);
  if (!normalised.has_value()) return std::nullopt;
  Parts with_mean = fused.parts;
  const auto x = Uncentred(view, *normalised, deviation.axis, &with_mean);
  if (x.has_value()) fused.parts = std::move(with_mean);
  if (!x.has_value() && bias.valid()) return std::nullopt;  // no such op; its rest fuses without
  const graph::TensorType& type = view.graph().value(x.value_or(*normalised)).type;
  const graph::TensorType weight{type.dtype,
                                 Shape(type.shape.begin() + deviation.axis, type.shape.end())};
  for (ValueId id : {scale, bias}) {
    if (id.valid() && view.graph().value(id).type != weight) return std::nullopt;
  }
  fused.op = x.has_value() ? "LayerNorm" : "RmsNorm";
  fused.inputs = {x.value_or(*normalised), scale};
  if (bias.valid()) fused.inputs.push_back(bias);
  if (!scale.valid()) fused.ones = weight;
  fused.attrs = {{"axis", deviation.axis}, {"epsilon", deviation.epsilon}};
  return fused;
}

// ---- Group normalisation as the normalisation of reshaped instances, then a scale and a bias a
// channel.

// `value` has one number a channel of `shape`, [C,1,...]; gives them as [C] if they are so behind a
// Reshape.
std::optional<ValueId> ChannelsOf(const GraphView& view, ValueId value, const Shape& shape,
                                  Parts* parts) {
  const Node* reshape = view.Take(value, "Reshape", parts);
  if (reshape == nullptr) return std::nullopt;
  Shape spread(shape.size() - 1, 1);
  spread[0] = shape[1];
  if (view.graph().value(value).type.shape != spread) return std::nullopt;
  if (view.graph().value(reshape->inputs[0]).type.shape != Shape{shape[1]}) return std::nullopt;
  return reshape->inputs[0];
}

// A constant whose elements all are `number`.
bool IsAll(const GraphView& view, ValueId value, double number) {
  const graph::Value& constant = view.graph().value(value);
  if (constant.role != graph::Role::kConstant) return false;
  for (double element : AsDoubles(*constant.data)) {
    if (element != number) return false;
  }
  return true;
}

std::optional<Fused> Groups(const GraphView& view, const Node& root) {
  if (root.op->name != "Add") return std::nullopt;
  Fused fused;
  const Node* mul = view.Take(root.inputs[0], "Mul", &fused.parts);
  if (mul == nullptr) return std::nullopt;
  const Node* back = view.Take(mul->inputs[0], "Reshape", &fused.parts);
  if (back == nullptr) return std::nullopt;
  const Node* norm = view.Take(back->inputs[0], "GroupNorm", &fused.parts);
  if (norm == nullptr) return std::nullopt;
  const Node* to = view.Take(norm->inputs[0], "Reshape", &fused.parts);
  if (to == nullptr) return std::nullopt;
  const Shape& shape = view.graph().value(root.outputs[0]).type.shape;
  const Shape& instances = view.graph().value(norm->inputs[0]).type.shape;
  const int64_t groups = norm->attrs.Int("groups", 1);
  if (shape.size() < 3 || view.graph().value(to->inputs[0]).type.shape != shape ||
      instances[0] != shape[0] || instances[1] != groups || shape[1] % groups != 0 ||
      !IsAll(view, norm->inputs[1], 1) || !IsAll(view, norm->inputs[2], 0)) {
    return std::nullopt;
  }
  const auto scale = ChannelsOf(view, mul->inputs[1], shape, &fused.parts);
  const auto bias = ChannelsOf(view, root.inputs[1], shape, &fused.parts);
  if (!scale.has_value() || !bias.has_value()) return std::nullopt;
  fused.op = "GroupNorm";
  fused.inputs = {to->inputs[0], *scale, *bias};
  fused.attrs = norm->attrs;
  return fused;
}

// ---- Softmax of PyTorch's attention: zeros where it is not a number, as all keys are masked.

std::optional<Fused> MaskedSoftmax(const GraphView& view, const Node& root) {
  if (root.op->name != "Where" || !IsAll(view, root.inputs[1], 0)) return std::nullopt;
  Fused fused;
  const Node* negation = view.Take(root.inputs[0], "Not", &fused.parts);
  if (negation == nullptr) return std::nullopt;
  const Node* equal = view.Take(negation->inputs[0], "Equal", &fused.parts);
  const ValueId soft = root.inputs[2];
  const Node* softmax = view.Take(soft, "Softmax", &fused.parts);
  if (equal == nullptr || softmax == nullptr || equal->inputs[0] != soft ||
      equal->inputs[1] != soft ||
      view.graph().value(soft).type != view.graph().value(root.outputs[0]).type) {
    return std::nullopt;
  }
  fused.op = "Softmax";
  fused.inputs = {softmax->inputs[0]};
  fused.attrs = softmax->attrs;
  fused.attrs.Set("zero_masked", int64_t{1});
  return fused;
}

constexpr Match kMatches[] = {Normalisation, Gelu, Silu, Groups, MaskedSoftmax};

HostTensor Ones(const graph::TensorType& type) {
  HostTensor tensor = HostTensor::Zeros(type);
  if (type.dtype == graph::DType::kF64) {
    for (double& value : tensor.as<double>()) value = 1;
  } else {
    for (float& value : tensor.as<float>()) value = 1;
  }
  return tensor;
}

class Fuser {
 public:
  explicit Fuser(const Graph& from) : from_(from), view_(from) {}

  absl::StatusOr<Graph> Run() {
    // From the results back, so that the largest match wins.
    for (size_t i = from_.nodes.size(); i-- > 0;) Find(from_.nodes[i]);
    if (fused_.empty()) return from_;
    copy_ = graph::CopyLeaves(from_, std::vector<bool>(from_.nodes.size(), true));
    for (const Node& node : from_.nodes) {
      if (const auto it = fused_.find(node.id); it != fused_.end()) {
        EBB_RETURN_IF_ERROR(Emit(node, it->second));
      } else if (!gone_.contains(node.id)) {
        EBB_RETURN_IF_ERROR(graph::CopyNode(from_, node, copy_));
      }
    }
    copy_.graph.outputs = graph::Mapped(copy_, from_.outputs);
    return std::move(copy_.graph);
  }

 private:
  void Find(const Node& root) {
    if (gone_.contains(root.id)) return;
    for (const Match match : kMatches) {
      std::optional<Fused> found = match(view_, root);
      if (!found.has_value() || !view_.OnlyServe(found->parts, root.id)) continue;
      for (NodeId part : found->parts) {
        if (part != root.id) gone_.insert(part);
      }
      fused_.emplace(root.id, *std::move(found));
      return;
    }
  }

  absl::Status Emit(const Node& root, const Fused& fused) {
    Graph& graph = copy_.graph;
    std::vector<ValueId> inputs = graph::Mapped(copy_, fused.inputs);
    if (fused.ones.has_value()) {
      inputs[1] = graph.AddConstant(absl::StrCat(root.name, "/ones"), Ones(*fused.ones));
    }
    EBB_ASSIGN_OR_RETURN(const NodeId id,
                         graph.AddNode(fused.op, root.name, std::move(inputs), fused.attrs));
    const ValueId result = graph.node(id).outputs[0];
    graph.Rename(result, from_.value(root.outputs[0]).name);
    copy_.map[root.outputs[0].index()] = result;
    return absl::OkStatus();
  }

  const Graph& from_;
  const GraphView view_;
  absl::flat_hash_set<NodeId> gone_;
  absl::flat_hash_map<NodeId, Fused> fused_;
  graph::GraphCopy copy_;
};

}  // namespace

absl::StatusOr<Graph> FuseLayers(const Graph& graph) { return Fuser(graph).Run(); }

}  // namespace ebb::model
