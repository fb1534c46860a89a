// Operands of an op that broadcasts, in memory order.
#include "device/common/broadcast.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace ebb::device {

absl::StatusOr<Shape> OperandShape(const Node& node, const Value& value, const Value& out) {
  const Shape& shape = value.type.shape;
  const size_t rank = out.type.shape.size();
  if (out.layout == Layout::kPlain && value.layout == Layout::kPlain) return shape;
  Shape padded(rank - std::min(rank, shape.size()), 1);
  padded.insert(padded.end(), shape.begin(), shape.end());
  if (value.layout == out.layout || LayoutFree(padded)) return PhysicalShape(padded, out.layout);
  return absl::UnimplementedError(absl::StrCat(node.op->name, " mixes layouts: \"", value.name,
                                               "\" ", graph::ToString(value.type), " with \"",
                                               out.name, "\""));
}

absl::StatusOr<Broadcast<2>> PlanBinary(const Graph& graph, const Node& node) {
  const Value& out = Out(graph, node);
  EBB_ASSIGN_OR_RETURN(const Shape a, OperandShape(node, In(graph, node, 0), out));
  EBB_ASSIGN_OR_RETURN(const Shape b, OperandShape(node, In(graph, node, 1), out));
  return MakeBroadcast<2>(PhysicalShape(out), {a, b});
}

}  // namespace ebb::device
