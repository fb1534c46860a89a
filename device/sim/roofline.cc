#include "device/sim/roofline.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "graph/op.h"

namespace ebb::device {
namespace {

using graph::Graph;
using graph::Node;
using graph::Shape;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t Whole(double value) { return static_cast<int64_t>(value); }

// `batch` products of rows x depth by depth x columns, and how deep a part of one is at least.
struct Gemm {
  int64_t batch, rows, columns, depth;
  double SimProfile::*split_depth = &SimProfile::split_depth;
};

const Shape& ShapeOf(const Graph& graph, ValueId value) { return graph.value(value).type.shape; }
int64_t Spatial(const Shape& shape) {
  return graph::NumElements(Shape(shape.begin() + 2, shape.end()));
}

// What a convolution or one of its gradients is as an implicit product, a group at a time.
Gemm ConvGemm(const Graph& graph, const Node& node) {
  const Shape& out = ShapeOf(graph, node.outputs[0]);
  const int64_t groups = node.attrs.Int("groups", 1);
  if (node.op->name == "ConvGradWeight") {  // dw [K, C/g, kernel], the sum runs over dy's positions
    const Shape& dy = ShapeOf(graph, node.inputs[0]);
    return {groups, out[0] / groups, out[1] * Spatial(out), dy[0] * Spatial(dy)};
  }
  const Shape& w = ShapeOf(graph, node.inputs[1]);  // [K, C/g, kernel]
  const int64_t positions = out[0] * Spatial(out);
  if (node.op->name == "ConvGradInput") {
    return {groups, positions, w[1], w[0] / groups * Spatial(w)};
  }
  return {groups, positions, w[0] / groups, w[1] * Spatial(w)};
}

Gemm MatMulGemm(const Graph& graph, const Node& node) {
  const Shape& a = ShapeOf(graph, node.inputs[0]);
  const Shape& b = ShapeOf(graph, node.inputs[1]);
  const Shape& out = ShapeOf(graph, node.outputs[0]);
  const bool trans_a = node.attrs.Int("trans_a", 0) != 0;
  Gemm gemm{.batch = graph::NumElements(Shape(out.begin(), out.end() - 2)),
            .rows = out[out.size() - 2],
            .columns = out[out.size() - 1],
            .depth = a[a.size() - (trans_a ? 2 : 1)]};
  // One matrix for the whole batch: its rows are one long product.
  if (!trans_a && graph::NumElements(Shape(b.begin(), b.end() - 2)) == 1) {
    gemm.rows *= std::exchange(gemm.batch, 1);
  }
  return gemm;
}

bool IsConv(const Node& node) {
  return node.op->name == "Conv" || node.op->name == "ConvGradInput" ||
         node.op->name == "ConvGradWeight";
}

const Shape& WeightShape(const Graph& graph, const Node& conv) {  // [K, C/g, kernel]
  return ShapeOf(graph, conv.op->name == "ConvGradWeight" ? conv.outputs[0] : conv.inputs[1]);
}

// One channel in or out a group: no product of matrices, its kernels are like elementwise ones.
bool IsDepthwise(const Graph& graph, const Node& conv) {
  const int64_t groups = conv.attrs.Int("groups", 1);
  const Shape& w = WeightShape(graph, conv);
  return groups > 1 && (w[1] == 1 || w[0] == groups);
}

// A recurrent layer: a product a step that waits for the step before, and of its gradient one more
// product over all steps, for the weights.
struct Recurrence {
  int64_t steps = 0;
  Gemm step;
  std::optional<Gemm> weights;
  double recurrent_bytes = 0;  // of r, which every step reads
};

std::optional<Recurrence> RecurrenceOf(const Graph& graph, const Node& node) {
  const absl::string_view op = node.op->name;
  const bool back = op == "LstmGrad" || op == "GruGrad";
  if (!back && op != "Lstm" && op != "Gru") return std::nullopt;
  const Shape& wide = ShapeOf(graph, node.inputs[0]);                        // [T,N,G H]
  const graph::TensorType& r = graph.value(node.inputs[back ? 3 : 1]).type;  // [G H,H]
  Recurrence layer{.steps = wide[0], .recurrent_bytes = static_cast<double>(r.bytes().count())};
  layer.step =
      back ? Gemm{1, wide[1], r.shape[1], r.shape[0]} : Gemm{1, wide[1], r.shape[0], r.shape[1]};
  if (back) layer.weights = Gemm{1, r.shape[0], r.shape[1], wide[0] * wide[1]};
  return layer;
}

std::optional<Gemm> GemmOf(const Graph& graph, const Node& node) {
  if (const auto layer = RecurrenceOf(graph, node)) return layer->step;
  if (node.op->name == "MatMul" || node.op->name == "Gemm") return MatMulGemm(graph, node);
  if (!IsConv(node) || IsDepthwise(graph, node)) return std::nullopt;
  Gemm gemm = ConvGemm(graph, node);
  gemm.split_depth = &SimProfile::conv_split_depth;
  return gemm;
}

int64_t LargestOperand(const Graph& graph, const Node& node) {
  int64_t elements = 0;
  for (const auto* ids : {&node.inputs, &node.outputs}) {
    for (const ValueId id : *ids) {
      if (id.valid()) elements = std::max(elements, graph::NumElements(ShapeOf(graph, id)));
    }
  }
  return elements;
}

Grid GemmGrid(const SimProfile& profile, const Gemm& gemm) {
  const int64_t tiles = gemm.batch * CeilDiv(gemm.rows, Whole(profile.tile_rows)) *
                        CeilDiv(gemm.columns, Whole(profile.tile_columns));
  Grid grid{std::max<int64_t>(1, tiles),
            Whole(profile.multiprocessors * profile.tiles_per_multiprocessor)};
  // Too few tiles for the device: a long reduction is split, at most until one wave is full.
  const int64_t deep_enough = gemm.depth / Whole(profile.*gemm.split_depth);
  const int64_t parts = std::min(grid.slots / grid.blocks, deep_enough);
  grid.blocks *= std::max<int64_t>(1, parts);
  return grid;
}

Grid ElementGrid(const SimProfile& profile, int64_t elements) {
  return {std::max<int64_t>(1, CeilDiv(elements, Whole(profile.block_elements))),
          Whole(profile.multiprocessors * profile.blocks_per_multiprocessor)};
}

KernelCost Cost(const SimProfile& profile, const Grid& grid, double flops, double bytes) {
  const double arithmetic = flops / profile.flops_per_us();
  const double traffic = bytes / profile.bytes_per_us();
  KernelCost cost;
  cost.micros = profile.kernel_overhead_us + std::max(arithmetic / grid.Efficiency(), traffic);
  if (cost.micros == 0) return cost;
  cost.slots = grid.Efficiency();
  cost.flops = arithmetic / cost.micros;
  cost.bandwidth = traffic / cost.micros;
  return cost;
}

// Kernels one after the other as one: shares are means over its time.
void Append(const KernelCost& next, double times, KernelCost* sum) {
  const double micros = next.micros * times, total = sum->micros + micros;
  if (total == 0) return;
  const auto mean = [&](double before, double now) {
    return (before * sum->micros + now * micros) / total;
  };
  *sum = {total, mean(sum->slots, next.slots), mean(sum->flops, next.flops),
          mean(sum->bandwidth, next.bandwidth)};
}

KernelCost RecurrenceCost(const SimProfile& profile, const Recurrence& layer,
                          const graph::OpCost& work) {
  const double steps = static_cast<double>(layer.steps);
  double flops = static_cast<double>(work.flops.count());
  KernelCost cost;
  if (layer.weights) {
    const Gemm& gemm = *layer.weights;
    const double share = 2.0 * static_cast<double>(gemm.rows) * static_cast<double>(gemm.columns) *
                         static_cast<double>(gemm.depth);
    Append(Cost(profile, GemmGrid(profile, gemm), share, 0), 1, &cost);
    flops -= share;
  }
  if (layer.steps == 0) return cost;
  const double bytes = static_cast<double>(work.bytes.count()) / steps + layer.recurrent_bytes;
  Append(Cost(profile, GemmGrid(profile, layer.step), flops / steps, bytes), steps, &cost);
  return cost;
}

}  // namespace

double Grid::Efficiency() const {
  return static_cast<double>(blocks) / static_cast<double>(CeilDiv(blocks, slots) * slots);
}

Grid GridOf(const SimProfile& profile, const Graph& graph, const Node& node) {
  if (const auto gemm = GemmOf(graph, node)) return GemmGrid(profile, *gemm);
  return ElementGrid(profile, LargestOperand(graph, node));
}

KernelCost CostAlone(const SimProfile& profile, const Graph& graph, const Node& node) {
  const graph::OpCost work = graph::CostOf(graph, node);
  if (work.flops == Flops(0) && work.bytes == Bytes(0)) return {};  // a view
  if (!profile.kernels.empty()) {
    if (const auto it = profile.kernels.find(KernelKey(graph, node)); it != profile.kernels.end()) {
      const double slot = 1 / profile.steps_at_once;
      return {it->second.micros, slot, slot, it->second.bandwidth};
    }
  }
  if (const auto layer = RecurrenceOf(graph, node)) return RecurrenceCost(profile, *layer, work);
  return Cost(profile, GridOf(profile, graph, node), static_cast<double>(work.flops.count()),
              static_cast<double>(work.bytes.count()));
}

// As libraries ask for: the patches of a transform or of the columns, never above a cap.
Bytes WorkspaceOf(const SimProfile& profile, const Graph& graph, const Node& node) {
  if (!IsConv(node) || IsDepthwise(graph, node)) return Bytes(0);
  const Shape& w = WeightShape(graph, node);
  if (Spatial(w) == 1) return Bytes(0);
  // The activations on either side, or their gradients.
  const bool weight_grad = node.op->name == "ConvGradWeight";
  const Bytes first = graph.value(node.inputs[0]).type.bytes();
  const Bytes second = graph.value(weight_grad ? node.inputs[1] : node.outputs[0]).type.bytes();
  const Bytes y = node.op->name == "Conv" ? second : first;
  bool winograd = true;  // 3 x 3, stride 1
  for (const int64_t stride : node.attrs.Ints("strides")) winograd &= stride == 1;
  for (size_t i = 2; i < w.size(); ++i) winograd &= w[i] == 3;
  const Bytes cap(Whole(profile.conv_workspace_mib * (1 << 20)));
  return std::min(cap, winograd ? first + second : y);
}

KernelCost DeviceCopyCost(const SimProfile& profile, Bytes bytes) {
  constexpr int64_t kElement = 4;
  return Cost(profile, ElementGrid(profile, CeilDiv(bytes.count(), kElement)), 0,
              2.0 * static_cast<double>(bytes.count()));
}

double BusMicros(const SimProfile& profile, Bytes bytes) {
  return profile.copy_latency_us + static_cast<double>(bytes.count()) / profile.bus_bytes_per_us();
}

}  // namespace ebb::device
