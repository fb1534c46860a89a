// LSTM and GRU: a projection of the inputs for all steps, then one recurrence a direction.
// PyTorch's exporters cut every weight into its gates and join them in ONNX's order; the weights
// are read in the order in which they are stored, so that they keep their names and need no copies.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "model/onnx_ops.h"
#include "model/onnx_shapes.h"
#include "model/value_runs.h"

namespace ebb::model {
namespace {

// X, W, R, B, initial_h, initial_c: not the lengths.
constexpr uint32_t kDifferentiable = 0b1101111;

// What tells the two layers apart.
struct Cell {
  absl::string_view onnx_gates, torch_gates;  // orders of the blocks of rows
  std::vector<std::string> activations;       // that one direction has unless the node says else
  absl::string_view op;                       // the graph's

  int64_t gates() const { return static_cast<int64_t>(onnx_gates.size()); }
  bool is_lstm() const { return op == "Lstm"; }
};
const Cell& LstmCell() {
  static const auto* const cell = new Cell{"iofc", "ifco", {"sigmoid", "tanh", "tanh"}, "Lstm"};
  return *cell;
}
const Cell& GruCell() {
  static const auto* const cell = new Cell{"zrh", "rzh", {"sigmoid", "tanh"}, "Gru"};
  return *cell;
}

// T steps of N sequences of I features, H hidden units, D directions.
struct Layer {
  const Cell& cell;
  int64_t steps = 0, batch = 0, features = 0, hidden = 0, directions = 1;
  bool reverse = false;      // the only direction
  bool batch_first = false;  // layout 1
  int64_t rows() const { return cell.gates() * hidden; }
};

// A weight of one direction, and the order of its gates.
struct Weight {
  ValueId id;  // invalid: absent
  std::string gates;
};

absl::Status CheckActivations(const ConvertContext& c, const Layer& layer) {
  const std::vector<std::string> given = c.Strings("activations");
  if (given.empty()) return absl::OkStatus();
  std::vector<std::string> wanted;
  for (int64_t d = 0; d < layer.directions; ++d) {
    wanted.insert(wanted.end(), layer.cell.activations.begin(), layer.cell.activations.end());
  }
  std::vector<std::string> lower;
  for (const std::string& name : given) lower.push_back(absl::AsciiStrToLower(name));
  if (lower == wanted) return absl::OkStatus();
  return c.Unimplemented(absl::StrCat("the activations ", absl::StrJoin(given, ", "),
                                      " are not supported, only the default ones; write such a "
                                      "cell as a loop over fixed steps, which the export unrolls"));
}

// What a node may ask for beyond PyTorch's layers is refused, never ignored.
absl::Status CheckFeatures(const ConvertContext& c, const Layer& layer) {
  EBB_RETURN_IF_ERROR(CheckActivations(c, layer));
  if (c.HasAttr("clip") && c.Float("clip", 0) != 0) {
    return c.Unimplemented("clipping of the cell is not supported; export without clip");
  }
  if (c.Int("input_forget", 0) != 0) {
    return c.Unimplemented("input_forget (coupled gates) is not supported; use the plain LSTM");
  }
  if (c.Has(7)) {
    return c.Unimplemented("peepholes are not supported; use an LSTM without them, as nn.LSTM is");
  }
  if (!c.Has(4)) return absl::OkStatus();
  const HostTensor* lengths = c.host(4);
  const bool full = lengths != nullptr && !graph::IsFloat(lengths->type.dtype) && [&] {
    const std::vector<int64_t> values = AsInts(*lengths);
    return std::all_of(values.begin(), values.end(),
                       [&](int64_t length) { return length == layer.steps; });
  }();
  if (full) return absl::OkStatus();
  return c.Unimplemented(
      "sequence_lens is not supported: all sequences have all steps. Export without "
      "pack_padded_sequence, pad the data, and let the loss ignore the labels of the padding "
      "(ignore_index)");
}

absl::StatusOr<Layer> ReadLayer(const ConvertContext& c, const Cell& cell) {
  Layer layer{.cell = cell};
  if (c.rank(0) != 3 || c.rank(1) != 3 || c.rank(2) != 3) {
    return c.Invalid("X, W and R must have three dimensions");
  }
  layer.batch_first = c.Int("layout", 0) != 0;
  layer.steps = c.shape(0)[layer.batch_first ? 1 : 0];
  layer.batch = c.shape(0)[layer.batch_first ? 0 : 1];
  layer.features = c.shape(0)[2];
  layer.hidden = c.shape(2)[2];
  const std::string direction = c.Str("direction", "forward");
  layer.reverse = direction == "reverse";
  layer.directions = direction == "bidirectional" ? 2 : 1;
  if (direction != "forward" && !layer.reverse && layer.directions == 1) {
    return c.Invalid(
        absl::StrCat("direction '", direction, "' must be forward, reverse or bidirectional"));
  }
  const Shape w = {layer.directions, layer.rows(), layer.features};
  const Shape r = {layer.directions, layer.rows(), layer.hidden};
  if (layer.hidden < 1 || layer.steps < 1 || layer.features < 1) {
    return c.Invalid("there are no hidden units, no features or no steps");
  }
  if (c.shape(1) != w || c.shape(2) != r || c.Int("hidden_size", layer.hidden) != layer.hidden) {
    return c.Invalid(absl::StrCat("W is ", graph::ToString(c.shape(1)), " and R ",
                                  graph::ToString(c.shape(2)), ", they must be ",
                                  graph::ToString(w), " and ", graph::ToString(r),
                                  ", with hidden_size ", layer.hidden));
  }
  if (c.Has(3) && c.shape(3) != Shape{layer.directions, 2 * layer.rows()}) {
    return c.Invalid(absl::StrCat("B is ", graph::ToString(c.shape(3)), ", it must be ",
                                  graph::ToString(Shape{layer.directions, 2 * layer.rows()})));
  }
  EBB_RETURN_IF_ERROR(CheckFeatures(c, layer));
  return layer;
}

absl::StatusOr<ValueId> Reshaped(ConvertContext& c, ValueId id, const Ints& shape) {
  if (c.TypeOf(id).shape == Shape(shape.begin(), shape.end())) return id;
  return c.Emit("Reshape", {id}, {{"shape", shape}});
}

// Elements `begin` to `end` of axis `axis`; all of them: the value itself.
absl::StatusOr<ValueId> Sliced(ConvertContext& c, ValueId id, int64_t axis, int64_t begin,
                               int64_t end) {
  if (begin == 0 && end == c.TypeOf(id).shape[static_cast<size_t>(axis)]) return id;
  return c.Emit(
      "Slice", {id},
      {{"starts", Ints{begin}}, {"ends", Ints{end}}, {"axes", Ints{axis}}, {"steps", Ints{1}}});
}

absl::StatusOr<ValueId> Joined(ConvertContext& c, const std::vector<ValueId>& parts, int64_t axis) {
  if (parts.size() == 1) return parts[0];
  return c.Emit("Concat", parts, {{"axis", axis}});
}

// The blocks of `runs`, one a gate in ONNX's order, are all of one value in another order: which.
// Empty: they are not.
std::string StoredOrder(const Cell& cell, const std::vector<Run>& runs, int64_t block,
                        int64_t source_elements) {
  std::string order(cell.onnx_gates.size(), '?');
  if (block == 0 || source_elements != cell.gates() * block) return "";
  for (int64_t gate = 0; gate < cell.gates(); ++gate) {
    const std::vector<Run> part = PartOf(runs, gate * block, block);
    if (part.size() != 1 || part[0].source != runs[0].source || part[0].begin % block != 0) {
      return "";
    }
    order[static_cast<size_t>(part[0].begin / block)] = cell.onnx_gates[static_cast<size_t>(gate)];
  }
  return order == cell.onnx_gates || order == cell.torch_gates ? order : "";
}

// Elements [begin, begin + rows * columns) of `packed` as a weight: the value that they are a
// re-ordering of, or else that part of it.
absl::StatusOr<Weight> WeightOf(ConvertContext& c, const Layer& layer, ValueId packed,
                                int64_t begin, const Ints& shape) {
  const int64_t count = graph::NumElements(Shape(shape.begin(), shape.end()));
  const std::vector<Run> runs = PartOf(RunsOf(c.emitted(), packed), begin, count);
  const ValueId source = runs[0].source;
  const int64_t stored = graph::NumElements(c.TypeOf(source).shape);
  std::string order = StoredOrder(layer.cell, runs, count / layer.cell.gates(), stored);
  if (!order.empty()) {
    EBB_ASSIGN_OR_RETURN(const ValueId id, Reshaped(c, source, shape));
    return Weight{id, std::move(order)};
  }
  EBB_ASSIGN_OR_RETURN(const ValueId flat,
                       Reshaped(c, packed, {graph::NumElements(c.TypeOf(packed).shape)}));
  EBB_ASSIGN_OR_RETURN(const ValueId part, Sliced(c, flat, 0, begin, begin + count));
  EBB_ASSIGN_OR_RETURN(const ValueId id, Reshaped(c, part, shape));
  return Weight{id, std::string(layer.cell.onnx_gates)};
}

// `weight` in ONNX's order.
absl::StatusOr<ValueId> InOnnxOrder(ConvertContext& c, const Layer& layer, const Weight& weight) {
  if (!weight.id.valid() || weight.gates == layer.cell.onnx_gates) return weight.id;
  std::vector<ValueId> blocks;
  for (const char gate : layer.cell.onnx_gates) {
    const auto at = static_cast<int64_t>(weight.gates.find(gate));
    EBB_ASSIGN_OR_RETURN(const ValueId block,
                         Sliced(c, weight.id, 0, at * layer.hidden, (at + 1) * layer.hidden));
    blocks.push_back(block);
  }
  return Joined(c, blocks, 0);
}

// The weights of one direction, their gates in one order.
struct Weights {
  ValueId w, r, wb, rb;  // the biases are absent together
  std::string gates;
};

absl::StatusOr<Weights> WeightsOf(ConvertContext& c, const Layer& layer, int64_t direction) {
  std::vector<Weight> all;
  const auto add = [&](size_t input, int64_t begin, const Ints& shape) -> absl::Status {
    EBB_ASSIGN_OR_RETURN(const ValueId packed, c.Weight(input));
    EBB_ASSIGN_OR_RETURN(Weight weight, WeightOf(c, layer, packed, begin, shape));
    all.push_back(std::move(weight));
    return absl::OkStatus();
  };
  const int64_t rows = layer.rows();
  EBB_RETURN_IF_ERROR(add(1, direction * rows * layer.features, {rows, layer.features}));
  EBB_RETURN_IF_ERROR(add(2, direction * rows * layer.hidden, {rows, layer.hidden}));
  for (int64_t bias = 0; c.Has(3) && bias < 2; ++bias) {
    EBB_RETURN_IF_ERROR(add(3, (2 * direction + bias) * rows, {rows}));
  }
  std::string gates = all[0].gates;
  const bool one = std::all_of(all.begin(), all.end(),
                               [&](const Weight& weight) { return weight.gates == gates; });
  if (!one) {
    for (Weight& weight : all) {
      EBB_ASSIGN_OR_RETURN(weight.id, InOnnxOrder(c, layer, weight));
    }
    gates = std::string(layer.cell.onnx_gates);
  }
  all.resize(4);
  if (all[2].id.valid() && all[2].id == all[3].id) {
    return c.Invalid(
        "both biases are one weight: the exporter has merged initializers that only happened to "
        "start with the same values. Export with torch.onnx.export(..., dynamo=True, "
        "optimize=False) or with dynamo=False and training=TrainingMode.TRAINING");
  }
  return Weights{all[0].id, all[1].id, all[2].id, all[3].id, std::move(gates)};
}

// The initial state of one direction [N,H]; invalid where it is absent or all zeros.
absl::StatusOr<ValueId> InitialState(ConvertContext& c, const Layer& layer, size_t input,
                                     int64_t direction) {
  if (!c.Has(input)) return ValueId();
  const Shape want = layer.batch_first ? Shape{layer.batch, layer.directions, layer.hidden}
                                       : Shape{layer.directions, layer.batch, layer.hidden};
  if (c.shape(input) != want) {
    return c.Invalid(absl::StrCat("input ", input, ", an initial state, is ",
                                  graph::ToString(c.shape(input)), ", it must be ",
                                  graph::ToString(want)));
  }
  if (const HostTensor* host = c.host(input); host != nullptr) {
    const auto zero = [](std::byte byte) { return byte == std::byte{0}; };
    if (std::all_of(host->data.begin(), host->data.end(), zero)) return ValueId();
  }
  EBB_ASSIGN_OR_RETURN(const ValueId state, c.In(input));
  EBB_ASSIGN_OR_RETURN(const ValueId part,
                       Sliced(c, state, layer.batch_first ? 1 : 0, direction, direction + 1));
  return Reshaped(c, part, {layer.batch, layer.hidden});
}

// Outputs of one direction: the states, and of an LSTM the cells, of all steps [T,N,H].
struct Outputs {
  ValueId y, cells;
  int64_t last = 0;  // the step that is computed last
};

absl::StatusOr<Outputs> Recur(ConvertContext& c, const Layer& layer, ValueId x, int64_t direction) {
  EBB_ASSIGN_OR_RETURN(const Weights weights, WeightsOf(c, layer, direction));
  ValueId bias = weights.wb;
  if (layer.cell.is_lstm() && bias.valid()) {
    EBB_ASSIGN_OR_RETURN(bias, c.Emit("Add", {bias, weights.rb}));
  }
  std::vector<ValueId> projected = {x, weights.w};
  if (bias.valid()) projected.push_back(bias);
  EBB_ASSIGN_OR_RETURN(ValueId pre, c.Emit("Gemm", projected, {{"trans_b", int64_t{1}}}));
  EBB_ASSIGN_OR_RETURN(pre, Reshaped(c, pre, {layer.steps, layer.batch, layer.rows()}));
  const bool reverse = layer.reverse || direction == 1;
  graph::Attrs attrs = {{"gates", weights.gates}, {"reverse", int64_t{reverse}}};
  EBB_ASSIGN_OR_RETURN(const ValueId h0, InitialState(c, layer, 5, direction));
  std::vector<ValueId> inputs = {pre, weights.r};
  if (layer.cell.is_lstm()) {
    EBB_ASSIGN_OR_RETURN(const ValueId c0, InitialState(c, layer, 6, direction));
    inputs.insert(inputs.end(), {h0, c0});
  } else {
    inputs.insert(inputs.end(), {weights.rb, h0});
    attrs.Set("linear_before_reset", c.Int("linear_before_reset", 0));
  }
  while (!inputs.back().valid()) inputs.pop_back();
  EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs,
                       c.EmitAll(layer.cell.op, inputs, std::move(attrs)));
  return Outputs{outputs[0], outputs[1], reverse ? 0 : layer.steps - 1};
}

absl::Status SetSequence(ConvertContext& c, const Layer& layer, const std::vector<Outputs>& all) {
  std::vector<ValueId> parts;
  for (const Outputs& one : all) {
    EBB_ASSIGN_OR_RETURN(const ValueId part,
                         Reshaped(c, one.y, {layer.steps, 1, layer.batch, layer.hidden}));
    parts.push_back(part);
  }
  EBB_ASSIGN_OR_RETURN(ValueId y, Joined(c, parts, 1));
  if (layer.batch_first) {
    EBB_ASSIGN_OR_RETURN(y, c.Emit("Transpose", {y}, {{"perm", Ints{2, 0, 1, 3}}}));
  }
  c.SetOutput(0, y);
  return absl::OkStatus();
}

// Output `output` is the last state of every direction.
absl::Status SetLast(ConvertContext& c, const Layer& layer, const std::vector<Outputs>& all,
                     ValueId Outputs::*states, size_t output) {
  std::vector<ValueId> parts;
  for (const Outputs& one : all) {
    EBB_ASSIGN_OR_RETURN(const ValueId part, Sliced(c, one.*states, 0, one.last, one.last + 1));
    parts.push_back(part);
  }
  EBB_ASSIGN_OR_RETURN(ValueId last, Joined(c, parts, 0));
  if (layer.batch_first) {
    EBB_ASSIGN_OR_RETURN(last, c.Emit("Transpose", {last}, {{"perm", Ints{1, 0, 2}}}));
  }
  c.SetOutput(output, last);
  return absl::OkStatus();
}

absl::Status Convert(ConvertContext& c, const Cell& cell) {
  EBB_ASSIGN_OR_RETURN(const Layer layer, ReadLayer(c, cell));
  EBB_ASSIGN_OR_RETURN(ValueId x, c.In(0));
  if (layer.batch_first) {
    EBB_ASSIGN_OR_RETURN(x, c.Emit("Transpose", {x}, {{"perm", Ints{1, 0, 2}}}));
  }
  EBB_ASSIGN_OR_RETURN(x, Reshaped(c, x, {layer.steps * layer.batch, layer.features}));
  std::vector<Outputs> all;
  for (int64_t direction = 0; direction < layer.directions; ++direction) {
    EBB_ASSIGN_OR_RETURN(Outputs outputs, Recur(c, layer, x, direction));
    all.push_back(std::move(outputs));
  }
  if (c.Wants(0)) EBB_RETURN_IF_ERROR(SetSequence(c, layer, all));
  if (c.Wants(1)) EBB_RETURN_IF_ERROR(SetLast(c, layer, all, &Outputs::y, 1));
  if (cell.is_lstm() && c.Wants(2)) EBB_RETURN_IF_ERROR(SetLast(c, layer, all, &Outputs::cells, 2));
  return absl::OkStatus();
}

absl::Status Lstm(ConvertContext& c) { return Convert(c, LstmCell()); }
absl::Status Gru(ConvertContext& c) { return Convert(c, GruCell()); }

constexpr OnnxOp kRows[] = {{"LSTM", 3, 8, kDifferentiable, Lstm},
                            {"GRU", 3, 6, kDifferentiable, Gru}};

}  // namespace

absl::Span<const OnnxOp> RecurrentOps() { return kRows; }

}  // namespace ebb::model
