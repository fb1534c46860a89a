#include "model/onnx_bags.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "model/onnx_ops.h"
#include "model/onnx_shapes.h"
#include "model/onnx_tensor.h"
#include "model/value_runs.h"

namespace ebb::model {
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::NodeProto;

const AttributeProto* FindAttr(const NodeProto& node, absl::string_view name) {
  for (const AttributeProto& attr : node.attribute()) {
    if (attr.name() == name) return &attr;
  }
  return nullptr;
}

int64_t IntAttr(const NodeProto& node, absl::string_view name, int64_t fallback) {
  const AttributeProto* attr = FindAttr(node, name);
  return attr == nullptr ? fallback : attr->i();
}

// The body of a Loop that carries nothing and makes one output a turn.
class Body {
 public:
  explicit Body(const GraphProto& graph) : graph_(graph) {
    for (const NodeProto& node : graph.node()) {
      for (const std::string& output : node.output()) made_.emplace(output, &node);
    }
    for (const auto& input : graph.input()) made_.emplace(input.name(), nullptr);
    for (const auto& tensor : graph.initializer()) made_.emplace(tensor.name(), nullptr);
  }

  // The node that makes `name`, if it is of this op and has at least as many inputs.
  const NodeProto* Maker(const std::string& name, absl::string_view op, int inputs) const {
    const auto it = made_.find(name);
    if (it == made_.end() || it->second == nullptr || it->second->op_type() != op) return nullptr;
    return it->second->input_size() >= inputs ? it->second : nullptr;
  }
  bool IsOuter(const std::string& name) const { return !name.empty() && !made_.contains(name); }

  // The outer list of which `name` is the entry of this turn: Unsqueeze(Gather(list, turn)).
  std::optional<std::string> EntryOf(const std::string& name) const {
    const NodeProto* unsqueeze = Maker(name, "Unsqueeze", 1);
    if (unsqueeze == nullptr) return std::nullopt;
    const NodeProto* gather = Maker(unsqueeze->input(0), "Gather", 2);
    if (gather == nullptr || IntAttr(*gather, "axis", 0) != 0 || !IsOuter(gather->input(0)) ||
        gather->input(1) != graph_.input(0).name()) {
      return std::nullopt;
    }
    return gather->input(0);
  }

  // Does a reduction take axis 0 away?
  bool ReducesFirstAxis(const NodeProto& node) const {
    if (IntAttr(node, "keepdims", 1) != 0) return false;
    if (const AttributeProto* axes = FindAttr(node, "axes"); axes != nullptr) {
      return axes->ints_size() == 1 && axes->ints(0) == 0;
    }
    const NodeProto* constant =
        node.input_size() > 1 ? Maker(node.input(1), "Constant", 0) : nullptr;
    const AttributeProto* value = constant == nullptr ? nullptr : FindAttr(*constant, "value");
    if (value == nullptr) return false;
    const auto tensor = ReadTensor(value->t(), "");
    if (!tensor.ok() || graph::IsFloat(tensor->type.dtype)) return false;
    return AsInts(*tensor) == std::vector<int64_t>{0};
  }

  // The condition to go on is one that does not change.
  bool GoesOn() const {
    const std::string& go_on = graph_.output(0).name();
    if (IsOuter(go_on) || go_on == graph_.input(1).name()) return true;
    for (const char* op : {"Cast", "Identity"}) {
      const NodeProto* copy = Maker(go_on, op, 1);
      if (copy == nullptr) continue;
      return IsOuter(copy->input(0)) || copy->input(0) == graph_.input(1).name();
    }
    return false;
  }

 private:
  const GraphProto& graph_;
  absl::flat_hash_map<std::string, const NodeProto*> made_;
};

// The node that takes the place of a Loop; nullopt if it is no embedding bag.
std::optional<NodeProto> AsBag(const NodeProto& loop) {
  const AttributeProto* attr = FindAttr(loop, "body");
  if (loop.input_size() != 2 || loop.output_size() != 1 || attr == nullptr) return std::nullopt;
  const GraphProto& graph = attr->g();
  if (graph.input_size() != 2 || graph.output_size() != 2) return std::nullopt;
  const Body body(graph);
  const std::string& result = graph.output(1).name();
  const NodeProto* sum = body.Maker(result, "ReduceSum", 1);
  const NodeProto* mean = body.Maker(result, "ReduceMean", 1);
  const NodeProto* reduce = sum != nullptr ? sum : mean;
  if (reduce == nullptr || !body.ReducesFirstAxis(*reduce) || !body.GoesOn()) return std::nullopt;
  const NodeProto* gather = body.Maker(reduce->input(0), "Gather", 2);
  if (gather == nullptr || IntAttr(*gather, "axis", 0) != 0) return std::nullopt;
  const NodeProto* slice = body.Maker(gather->input(1), "Slice", 4);
  if (slice == nullptr || slice->input_size() != 4) return std::nullopt;
  const auto begin = body.EntryOf(slice->input(1)), end = body.EntryOf(slice->input(2));
  if (!begin || !end || !body.IsOuter(gather->input(0)) || !body.IsOuter(slice->input(0)) ||
      !body.IsOuter(slice->input(3))) {
    return std::nullopt;
  }
  NodeProto bag;
  bag.set_name(loop.name());
  bag.set_op_type(kEmbeddingBagOp);
  for (const std::string& input : {gather->input(0), slice->input(0), *begin, *end, loop.input(0),
                                   loop.input(1), slice->input(3)}) {
    bag.add_input(input);
  }
  bag.add_output(loop.output(0));
  AttributeProto* mode = bag.add_attribute();
  mode->set_name("mode");
  mode->set_type(AttributeProto::STRING);
  mode->set_s(sum != nullptr ? "sum" : "mean");
  return bag;
}

// ---- The importer's row.

// The number of bags, once all that the loop could do otherwise is ruled out.
absl::StatusOr<int64_t> BagsOf(const ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const Ints bags, c.KnownInts(4, "the number of bags"));
  EBB_ASSIGN_OR_RETURN(const Ints axes, c.KnownInts(6, "the axis of the bags"));
  EBB_ASSIGN_OR_RETURN(const HostTensor* go_on, c.Known(5, "the condition"));
  if (bags.size() != 1 || axes != Ints{0} || go_on->data.empty() || FirstAsDouble(*go_on) == 0 ||
      c.rank(0) != 2 || c.rank(1) != 1 || c.rank(2) != 1 || c.rank(3) != 1 || bags[0] < 0 ||
      c.shape(2)[0] < bags[0] || c.shape(3)[0] < bags[0]) {
    return c.Unimplemented("this loop is no embedding bag over a table of rows");
  }
  return bags[0];
}

absl::Status NotInARow(const ConvertContext& c) {
  return c.Unimplemented(
      "the bags do not follow each other in the indices; use nn.EmbeddingBag as it is, or "
      "nn.Embedding and a sum over the rows");
}

// Offsets of all bags and the end of the last, as a constant.
absl::StatusOr<ValueId> KnownOffsets(ConvertContext& c, int64_t bags) {
  const Ints begin = AsInts(*c.host(2)), end = AsInts(*c.host(3));
  EBB_ASSIGN_OR_RETURN(HostTensor offsets, c.Allocate({DType::kI64, {bags + 1}}));
  const auto values = offsets.as<int64_t>();
  for (int64_t bag = 0; bag < bags; ++bag) {
    const auto at = static_cast<size_t>(bag);
    if (begin[at] < 0 || (bag > 0 && begin[at] != end[at - 1])) return NotInARow(c);
    values[at] = begin[at];
    values[at + 1] = end[at];
  }
  return c.Constant(std::move(offsets));
}

// Offsets that the step computes: the ends must be the offsets without the first.
absl::StatusOr<ValueId> FedOffsets(ConvertContext& c, int64_t bags) {
  EBB_ASSIGN_OR_RETURN(const ValueId begin, c.In(2));
  EBB_ASSIGN_OR_RETURN(const ValueId end, c.In(3));
  if (c.shape(2)[0] != bags + 1 || c.shape(3)[0] != bags) return NotInARow(c);
  const std::vector<Run> begins = RunsOf(c.emitted(), begin), ends = RunsOf(c.emitted(), end);
  if (PartOf(begins, 1, bags) != ends) return NotInARow(c);
  return begin;
}

absl::Status EmbeddingBag(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const int64_t bags, BagsOf(c));
  const bool known = c.host(2) != nullptr && c.host(3) != nullptr;
  ValueId offsets;
  if (known) {
    EBB_ASSIGN_OR_RETURN(offsets, KnownOffsets(c, bags));
  } else {
    EBB_ASSIGN_OR_RETURN(offsets, FedOffsets(c, bags));
  }
  EBB_ASSIGN_OR_RETURN(const ValueId weight, c.Weight(0));
  EBB_ASSIGN_OR_RETURN(const ValueId indices, c.In(1));
  const DType index = c.TypeOf(indices).dtype;
  if (c.TypeOf(offsets).dtype != index) {
    EBB_ASSIGN_OR_RETURN(offsets,
                         c.Emit("Cast", {offsets}, {{"to", std::string(graph::Name(index))}}));
  }
  return c.Result("EmbeddingBag", {weight, indices, offsets},
                  {{"mode", c.Str("mode", "sum")}, {"include_last_offset", int64_t{1}}});
}

constexpr OnnxOp kRows[] = {{kEmbeddingBagOp, 7, 7, kFirstInput, EmbeddingBag}};

}  // namespace

void ReplaceEmbeddingBags(GraphProto* graph) {
  for (NodeProto& node : *graph->mutable_node()) {
    if (node.op_type() != "Loop") continue;
    if (auto bag = AsBag(node); bag.has_value()) node = *std::move(bag);
  }
}

absl::Span<const OnnxOp> EmbeddingBagOps() { return kRows; }

}  // namespace ebb::model
