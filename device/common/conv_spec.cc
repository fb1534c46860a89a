#include "device/common/conv_spec.h"

#include <algorithm>

#include "absl/status/status.h"

namespace ebb::device {
namespace {

absl::StatusOr<ConvSpec> SpecOf(ConvKind kind, Precision precision, const Node& node,
                                const Value& x, const Shape& w, const Value& y) {
  ConvSpec spec;
  spec.kind = kind;
  spec.precision = precision;
  spec.x.assign(x.type.shape.begin(), x.type.shape.end());
  spec.w.assign(w.begin(), w.end());
  spec.y.assign(y.type.shape.begin(), y.type.shape.end());
  const size_t spatial = x.type.shape.size() - 2;
  spec.strides = node.attrs.Ints("strides", std::vector<int64_t>(spatial, 1));
  spec.dilations = node.attrs.Ints("dilations", std::vector<int64_t>(spatial, 1));
  const std::vector<int64_t> pads = node.attrs.Ints("pads", std::vector<int64_t>(2 * spatial, 0));
  spec.pads_begin.assign(pads.begin(), pads.begin() + static_cast<int64_t>(spatial));
  spec.pads_end.assign(pads.begin() + static_cast<int64_t>(spatial), pads.end());
  spec.groups = node.attrs.Int("groups", 1);
  if (x.layout != y.layout && !LayoutFree(x.type.shape) && !LayoutFree(y.type.shape)) {
    return absl::UnimplementedError("a convolution keeps its operand's layout");
  }
  const Layout layout = LayoutFree(x.type.shape) ? y.layout : x.layout;
  spec.channels_last = layout == Layout::kChannelsLast;
  return spec;
}

}  // namespace

bool ConvSpec::IsProduct() const {
  const auto all = [](const std::vector<int64_t>& values, int64_t want) {
    return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == want; });
  };
  return channels_last && groups == 1 && all({w.begin() + 2, w.end()}, 1) && all(strides, 1) &&
         all(pads_begin, 0) && all(pads_end, 0);
}

absl::StatusOr<ConvSpec> ConvSpecOf(const Graph& graph, const Node& node) {
  const Value& out = Out(graph, node);
  const Precision precision = PrecisionOf(graph, node);
  if (node.op->name == "ConvGradInput") {
    return SpecOf(ConvKind::kGradInput, precision, node, out, In(graph, node, 1).type.shape,
                  In(graph, node));
  }
  if (node.op->name == "ConvGradWeight") {
    return SpecOf(ConvKind::kGradWeight, precision, node, In(graph, node, 1), out.type.shape,
                  In(graph, node));
  }
  auto spec = SpecOf(ConvKind::kForward, precision, node, In(graph, node),
                     In(graph, node, 1).type.shape, out);
  if (spec.ok()) spec->bias = HasInput(node, 2);
  return spec;
}

}  // namespace ebb::device
