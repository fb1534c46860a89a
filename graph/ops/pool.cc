// Max and average pooling.
#include <algorithm>

#include "graph/ops/window.h"

namespace ebb::graph::ops {
namespace {

constexpr int64_t kMaxWindow = 255;  // MaxPool's argmax is a u8

enum class PoolKind { kMax, kAverage };

// Reads and checks the window of `kind` over inputs of S spatial dimensions.
Window ReadPool(AttrReader& attrs, PoolKind kind, size_t spatial) {
  Window window = ReadWindow(attrs, spatial);
  window.kernel = attrs.List("kernel", spatial, 1, kMaxInt);
  if (kind == PoolKind::kMax) {
    window.dilations = attrs.List("dilations", spatial, 1, kMaxInt);
    int64_t size = 1;
    for (const int64_t k : window.kernel) size = std::min(size, kMaxWindow + 1) * k;
    attrs.Check(size <= kMaxWindow, "the window has more than ", kMaxWindow, " positions");
  } else {
    const Ints counted = attrs.List("counted_pads", 2 * spatial, 0, kMaxInt);
    for (size_t i = 0; i < 2 * spatial; ++i) {
      attrs.Check(counted[i] <= window.pads[i], "counted_pads has ", counted[i], " at ", i,
                  ", more than the pad ", window.pads[i]);
    }
  }
  for (size_t i = 0; i < 2 * spatial; ++i) {
    const size_t axis = i % spatial;
    const int64_t extent = (window.kernel[axis] - 1) * window.dilations[axis] + 1;
    attrs.Check(window.pads[i] < extent, "the pad ", window.pads[i], " at ", i,
                " must be less than the window's extent ", extent);
  }
  return window;
}

// The shape of y. Every window has a position inside the input: with pads below the extent that is
// so unless a dilated window straddles the input.
absl::StatusOr<Shape> PoolOutput(const Shape& x, const Window& window) {
  const absl::Span<const int64_t> input = Spatial(x);
  for (size_t i = 0; i < input.size(); ++i) {
    const bool padded = window.pads[i] > 0;
    if (input[i] < 1 || (padded && window.dilations[i] > input[i])) {
      return Invalid("spatial dimension ", i, " of ", ToString(x),
                     " is too small: some windows would lie outside");
    }
  }
  EBB_ASSIGN_OR_RETURN(const Shape spatial, WindowPositions(input, window));
  Shape y = {x[0], x[1]};
  y.insert(y.end(), spatial.begin(), spatial.end());
  return y;
}

template <PoolKind kKind>
absl::StatusOr<Types> PoolShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "x"));
  EBB_RETURN_IF_ERROR(CheckRank("x", *x, 3, 5));
  AttrReader attrs(context.attrs);
  const Window window = ReadPool(attrs, kKind, x->shape.size() - 2);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const Shape y, PoolOutput(x->shape, window));
  if (kKind == PoolKind::kMax) return Outputs({{x->dtype, y}, {DType::kU8, y}});
  return Output(x->dtype, y);
}

template <PoolKind kKind>
absl::StatusOr<Types> PoolGradShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* dy, Required(context, 0, "dy"));
  EBB_RETURN_IF_ERROR(CheckRank("dy", *dy, 3, 5));
  AttrReader attrs(context.attrs);
  const Window window = ReadPool(attrs, kKind, dy->shape.size() - 2);
  const Shape x = attrs.Dims("input_shape");
  EBB_RETURN_IF_ERROR(attrs.Finish());
  if (x.size() != dy->shape.size()) {
    return Invalid("input_shape is ", ToString(x), ", needs dy's rank ", dy->shape.size());
  }
  EBB_ASSIGN_OR_RETURN(const Shape y, PoolOutput(x, window));
  EBB_RETURN_IF_ERROR(Exactly(context, 0, "dy", {dy->dtype, y}));
  if (kKind == PoolKind::kMax) {
    EBB_RETURN_IF_ERROR(Exactly(context, 1, "argmax", {DType::kU8, y}));
  }
  return Output(dy->dtype, x);
}

template <PoolKind kKind>
absl::Status PoolGrad(GradContext& grad) {
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  const Node node = grad.node();
  Attrs attrs = node.attrs;
  attrs.Set("input_shape", ToInts(grad.type(node.inputs[0]).shape));
  std::vector<ValueId> inputs = {grad.dy(0)};
  if (kKind == PoolKind::kMax) inputs.push_back(node.outputs[1]);
  EBB_ASSIGN_OR_RETURN(const ValueId dx,
                       grad.Emit(kKind == PoolKind::kMax ? "MaxPoolGrad" : "AveragePoolGrad",
                                 std::move(inputs), std::move(attrs)));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

int64_t WindowSize(const Node& node) {
  int64_t size = 1;
  for (const int64_t k : node.attrs.Ints("kernel")) size = Product({size, k}).count();
  return size;
}
Flops ForwardFlops(const Graph& graph, const Node& node) {
  return Product({OutputElements(graph, node, 0), WindowSize(node)});
}
Flops AverageGradFlops(const Graph& graph, const Node& node) {
  return Product({InputElements(graph, node, 0), WindowSize(node)});
}

}  // namespace

absl::Span<const OpDef> Pool() {
  static const auto* const rows = new std::vector<OpDef>{
      {.name = "MaxPool",
       .shape = PoolShape<PoolKind::kMax>,
       .gradient = PoolGrad<PoolKind::kMax>,
       .flops = ForwardFlops},
      {.name = "MaxPoolGrad",
       .min_inputs = 2,
       .max_inputs = 2,
       .shape = PoolGradShape<PoolKind::kMax>,
       .flops = PerInput<1>},
      {.name = "AveragePool",
       .shape = PoolShape<PoolKind::kAverage>,
       .gradient = PoolGrad<PoolKind::kAverage>,
       .flops = ForwardFlops},
      {.name = "AveragePoolGrad",
       .shape = PoolGradShape<PoolKind::kAverage>,
       .flops = AverageGradFlops},
  };
  return *rows;
}

}  // namespace ebb::graph::ops
