// Types, layouts and refusals that kernels of every device need.
#include "device/common/operands.h"

#include "absl/strings/str_cat.h"

namespace ebb::device {

absl::Status BadType(const Node& node, DType dtype) {
  return absl::UnimplementedError(absl::StrCat(node.op->name, " of ", graph::Name(dtype),
                                               " has no kernel on this device; cast the operand"));
}

absl::Status RequireF32(const Graph& graph, const Node& node) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (HasInput(node, i) && In(graph, node, i).type.dtype == DType::kF64) {
      return BadType(node, DType::kF64);
    }
  }
  for (const ValueId out : node.outputs) {
    if (graph.value(out).type.dtype == DType::kF64) return BadType(node, DType::kF64);
  }
  return absl::OkStatus();
}

absl::Status RequirePlain(const Graph& graph, const Node& node) {
  const auto plain = [&](ValueId id) {
    return !id.valid() || graph.value(id).layout == Layout::kPlain ||
           LayoutFree(graph.value(id).type.shape);
  };
  for (const ValueId id : node.inputs) {
    if (!plain(id)) {
      return absl::UnimplementedError(
          absl::StrCat(node.op->name, " on this device does not read channels-last values"));
    }
  }
  for (const ValueId id : node.outputs) {
    if (!plain(id)) {
      return absl::UnimplementedError(
          absl::StrCat(node.op->name, " on this device does not make channels-last values"));
    }
  }
  return absl::OkStatus();
}

absl::Status RequireOneLayout(const Graph& graph, const Node& node) {
  const Value& out = Out(graph, node);
  for (const ValueId in : node.inputs) {
    if (graph.value(in).layout != out.layout && !LayoutFree(out.type.shape)) {
      return absl::UnimplementedError(absl::StrCat(node.op->name, " on this device mixes layouts"));
    }
  }
  return absl::OkStatus();
}

Shape PhysicalShape(const Shape& shape, Layout layout) {
  if (layout == Layout::kPlain || shape.size() < 3) return shape;
  Shape result = {shape[0]};
  result.insert(result.end(), shape.begin() + 2, shape.end());
  result.push_back(shape[1]);
  return result;
}

int64_t PhysicalAxis(int64_t axis, size_t rank, Layout layout) {
  if (layout == Layout::kPlain || rank < 3 || axis == 0) return axis;
  return axis == 1 ? static_cast<int64_t>(rank) - 1 : axis - 1;
}

bool LayoutFree(const Shape& shape) {
  if (shape.size() < 3 || shape[1] <= 1) return true;
  for (size_t i = 2; i < shape.size(); ++i) {
    if (shape[i] != 1) return false;
  }
  return true;
}

}  // namespace ebb::device
