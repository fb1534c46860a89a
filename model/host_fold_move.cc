// Host evaluation of ops that only move elements; they copy bytes whatever the element type is.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/host_fold.h"
#include "model/onnx_shapes.h"

namespace ebb::model {
namespace {

using Tensors = std::vector<HostTensor>;

absl::StatusOr<HostTensor> Make(const NodeView& node, HostBudget& budget, DType dtype,
                                Shape shape) {
  auto out = budget.Allocate({dtype, std::move(shape)});
  if (!out.ok()) return node.Invalid(out.status().message());
  return out;
}

// out[i] = in[start + sum(index x strides)], strides in elements.
absl::StatusOr<Tensors> Strided(const NodeView& node, HostBudget& budget, const HostTensor& in,
                                const Shape& shape, const Shape& strides, int64_t start = 0) {
  Tensors list(1);
  EBB_ASSIGN_OR_RETURN(list[0], Make(node, budget, in.type.dtype, shape));
  const auto size = static_cast<size_t>(graph::SizeOf(in.type.dtype).count());
  std::byte* out = list[0].data.data();
  ForEachOffset(shape, strides, start, [&](int64_t i, int64_t at) {
    std::memcpy(out + static_cast<size_t>(i) * size,
                in.data.data() + static_cast<size_t>(at) * size, size);
  });
  return list;
}

absl::StatusOr<Tensors> FoldIdentity(const NodeView& node, HostBudget& budget) {
  Tensors list(1);
  EBB_ASSIGN_OR_RETURN(list[0], Make(node, budget, node.type(0).dtype, node.shape(0)));
  list[0].data = node.host(0)->data;
  return list;
}

absl::StatusOr<Tensors> FoldReshape(const NodeView& node, HostBudget& budget) {
  EBB_ASSIGN_OR_RETURN(Shape shape, ReshapedShape(node));
  Tensors list(1);
  EBB_ASSIGN_OR_RETURN(list[0], Make(node, budget, node.type(0).dtype, std::move(shape)));
  list[0].data = node.host(0)->data;
  return list;
}

absl::StatusOr<Tensors> FoldTranspose(const NodeView& node, HostBudget& budget) {
  EBB_ASSIGN_OR_RETURN(const Ints perm, TransposePerm(node));
  const Shape strides = graph::StridesOf(node.shape(0));
  Shape shape, moved;
  for (int64_t axis : perm) {
    shape.push_back(node.shape(0)[static_cast<size_t>(axis)]);
    moved.push_back(strides[static_cast<size_t>(axis)]);
  }
  return Strided(node, budget, *node.host(0), std::move(shape), moved);
}

absl::StatusOr<Tensors> FoldExpand(const NodeView& node, HostBudget& budget) {
  EBB_ASSIGN_OR_RETURN(const Shape shape, ExpandedShape(node));
  return Strided(node, budget, *node.host(0), shape, BroadcastStrides(node.shape(0), shape));
}

absl::StatusOr<Tensors> FoldTile(const NodeView& node, HostBudget& budget) {
  EBB_ASSIGN_OR_RETURN(const Ints repeats, TileRepeats(node));
  const Shape& in = node.shape(0);
  Shape shape = in;
  for (size_t i = 0; i < in.size(); ++i) {
    if (__builtin_mul_overflow(shape[i], repeats[i], &shape[i])) {
      return node.Invalid("the result is too large");
    }
  }
  Tensors list(1);
  EBB_ASSIGN_OR_RETURN(list[0], Make(node, budget, node.type(0).dtype, shape));
  const Shape strides = graph::StridesOf(in);
  const auto size = static_cast<size_t>(graph::SizeOf(node.type(0).dtype).count());
  ForEachOffset(shape, graph::StridesOf(shape), 0, [&](int64_t i, int64_t) {
    int64_t rest = i, at = 0;
    for (size_t axis = shape.size(); axis-- > 0;) {
      at += rest % shape[axis] % in[axis] * strides[axis];
      rest /= shape[axis];
    }
    std::memcpy(list[0].data.data() + static_cast<size_t>(i) * size,
                node.host(0)->data.data() + static_cast<size_t>(at) * size, size);
  });
  return list;
}

absl::StatusOr<Tensors> FoldSlice(const NodeView& node, HostBudget& budget) {
  EBB_ASSIGN_OR_RETURN(const SliceSpec spec, ReadSlice(node));
  Shape strides = graph::StridesOf(node.shape(0));
  int64_t start = 0;
  for (size_t k = 0; k < spec.axes.size(); ++k) {
    const auto axis = static_cast<size_t>(spec.axes[k]);
    start += spec.starts[k] * strides[axis];
    strides[axis] *= spec.steps[k];
  }
  return Strided(node, budget, *node.host(0), spec.shape, strides, start);
}

absl::StatusOr<Tensors> FoldSplit(const NodeView& node, HostBudget& budget) {
  EBB_ASSIGN_OR_RETURN(const SplitSpec spec, ReadSplit(node));
  const Shape strides = graph::StridesOf(node.shape(0));
  const auto axis = static_cast<size_t>(spec.axis);
  Tensors list;
  int64_t start = 0;
  for (int64_t size : spec.sizes) {
    Shape shape = node.shape(0);
    shape[axis] = size;
    EBB_ASSIGN_OR_RETURN(Tensors part, Strided(node, budget, *node.host(0), std::move(shape),
                                               strides, start * strides[axis]));
    list.push_back(std::move(part[0]));
    start += size;
  }
  return list;
}

absl::StatusOr<Tensors> FoldConcat(const NodeView& node, HostBudget& budget) {
  EBB_ASSIGN_OR_RETURN(const int64_t normal, NormalAxis(node, node.Int("axis", 0), node.rank(0)));
  const auto axis = static_cast<size_t>(normal);
  Shape shape = node.shape(0);
  for (size_t i = 1; i < node.num_inputs(); ++i) {
    Shape other = node.host(i) == nullptr ? Shape{} : node.shape(i);
    if (other.size() == shape.size()) {
      shape[axis] += other[axis];
      other[axis] = shape[axis];
    }
    if (other != shape || node.type(i).dtype != node.type(0).dtype) {
      return node.Invalid("the operands' types do not fit");
    }
  }
  Tensors list(1);
  EBB_ASSIGN_OR_RETURN(list[0], Make(node, budget, node.type(0).dtype, shape));
  if (list[0].data.empty()) return list;
  // Copies runs: everything from the axis on is contiguous in each operand.
  const auto run = [&](const Shape& s) {
    return static_cast<size_t>(graph::NumElements(Shape(s.begin() + normal, s.end())) *
                               graph::SizeOf(node.type(0).dtype).count());
  };
  const int64_t rows = graph::NumElements(Shape(shape.begin(), shape.begin() + normal));
  std::byte* out = list[0].data.data();
  for (int64_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      const size_t bytes = run(node.shape(i));
      if (bytes == 0) continue;
      std::memcpy(out, node.host(i)->data.data() + static_cast<size_t>(row) * bytes, bytes);
      out += bytes;
    }
  }
  return list;
}

absl::StatusOr<Tensors> FoldGather(const NodeView& node, HostBudget& budget) {
  if (node.rank(0) == 0) return node.Invalid("cannot gather from a scalar");
  EBB_ASSIGN_OR_RETURN(const int64_t normal, NormalAxis(node, node.Int("axis", 0), node.rank(0)));
  EBB_ASSIGN_OR_RETURN(const Ints indices, node.KnownInts(1, "indices"));
  const auto axis = static_cast<size_t>(normal);
  const Shape& in = node.shape(0);
  Shape shape(in.begin(), in.begin() + normal);
  shape.insert(shape.end(), node.shape(1).begin(), node.shape(1).end());
  shape.insert(shape.end(), in.begin() + normal + 1, in.end());
  Tensors list(1);
  EBB_ASSIGN_OR_RETURN(list[0], Make(node, budget, node.type(0).dtype, shape));
  const auto bytes =
      static_cast<size_t>(graph::NumElements(Shape(in.begin() + normal + 1, in.end())) *
                          graph::SizeOf(node.type(0).dtype).count());
  const int64_t rows = graph::NumElements(Shape(in.begin(), in.begin() + normal));
  if (list[0].data.empty()) return list;
  std::byte* out = list[0].data.data();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t index : indices) {
      const int64_t at = index < 0 ? index + in[axis] : index;
      if (at < 0 || at >= in[axis]) {
        return node.Invalid(absl::StrCat("index ", index, " is out of range for axis ", normal,
                                         " of ", graph::ToString(in)));
      }
      std::memcpy(out, node.host(0)->data.data() + static_cast<size_t>(row * in[axis] + at) * bytes,
                  bytes);
      out += bytes;
    }
  }
  return list;
}

absl::StatusOr<Tensors> FoldWhere(const NodeView& node, HostBudget& budget) {
  auto shape = graph::BroadcastShapes(node.shape(1), node.shape(2));
  if (shape.has_value()) shape = graph::BroadcastShapes(node.shape(0), *shape);
  if (!shape.has_value() || node.type(0).dtype != DType::kBool ||
      node.type(1).dtype != node.type(2).dtype) {
    return node.Invalid("the operands' types do not fit");
  }
  EBB_ASSIGN_OR_RETURN(Tensors list, Strided(node, budget, *node.host(2), *shape,
                                             BroadcastStrides(node.shape(2), *shape)));
  std::vector<uint8_t> chosen(static_cast<size_t>(graph::NumElements(*shape)));
  const auto cond = node.host(0)->as<uint8_t>();
  ForEachOffset(*shape, BroadcastStrides(node.shape(0), *shape), 0, [&](int64_t i, int64_t at) {
    chosen[static_cast<size_t>(i)] = cond[static_cast<size_t>(at)];
  });
  const auto size = static_cast<size_t>(graph::SizeOf(node.type(1).dtype).count());
  ForEachOffset(*shape, BroadcastStrides(node.shape(1), *shape), 0, [&](int64_t i, int64_t at) {
    if (chosen[static_cast<size_t>(i)] == 0) return;
    std::memcpy(list[0].data.data() + static_cast<size_t>(i) * size,
                node.host(1)->data.data() + static_cast<size_t>(at) * size, size);
  });
  return list;
}

absl::StatusOr<Tensors> FoldTrilu(const NodeView& node, HostBudget& budget) {
  if (node.rank(0) < 2) return node.Invalid("a matrix is needed");
  int64_t k = 0;
  if (node.host(1) != nullptr) {
    EBB_ASSIGN_OR_RETURN(const Ints diagonal, node.KnownInts(1, "k"));
    if (diagonal.size() != 1) return node.Invalid("k must be one number");
    k = std::clamp<int64_t>(diagonal[0], -(int64_t{1} << 40), int64_t{1} << 40);
  }
  const bool upper = node.Int("upper", 1) != 0;
  EBB_ASSIGN_OR_RETURN(Tensors list, FoldIdentity(node, budget));
  const auto size = static_cast<size_t>(graph::SizeOf(node.type(0).dtype).count());
  const int64_t columns = node.shape(0).back();
  const int64_t rows = node.shape(0)[node.shape(0).size() - 2];
  const int64_t count = graph::NumElements(node.shape(0));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t column = i % columns;
    const int64_t row = i / columns % rows;
    if (upper ? column - row >= k : column - row <= k) continue;
    std::memset(list[0].data.data() + static_cast<size_t>(i) * size, 0, size);
  }
  return list;
}

constexpr FoldRow kRows[] = {{"Identity", FoldIdentity, 1, 1}, {"Reshape", FoldReshape, 2, 2},
                             {"Flatten", FoldReshape, 1, 1},   {"Squeeze", FoldReshape, 1, 2},
                             {"Unsqueeze", FoldReshape, 1, 2}, {"Transpose", FoldTranspose, 1, 1},
                             {"Expand", FoldExpand, 2, 2},     {"Tile", FoldTile, 2, 2},
                             {"Slice", FoldSlice, 1, 5},       {"Split", FoldSplit, 1, 2},
                             {"Concat", FoldConcat, 1, -1},    {"Gather", FoldGather, 2, 2},
                             {"Where", FoldWhere, 3, 3},       {"Trilu", FoldTrilu, 1, 2}};

}  // namespace

absl::Span<const FoldRow> FoldMove() { return kRows; }

}  // namespace ebb::model
