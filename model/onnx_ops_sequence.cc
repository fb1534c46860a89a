// Sequences of known length: dynamo writes a split as SplitToSequence and one SequenceAt a part.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/onnx_ops.h"
#include "model/onnx_shapes.h"

namespace ebb::model {
namespace {

constexpr int64_t kMaxParts = 4096;  // no model has as many; a hostile file might

// The sizes of the parts along the axis.
absl::StatusOr<Ints> PartSizes(const ConvertContext& c, int64_t size) {
  if (!c.Has(1)) return Ints(static_cast<size_t>(size), 1);
  EBB_ASSIGN_OR_RETURN(const Ints given, c.KnownInts(1, "split"));
  Ints sizes = given;
  if (c.rank(1) == 0) {  // equal parts; the last may be smaller
    if (given[0] <= 0) return c.Invalid(absl::StrCat("split is ", given[0]));
    if (size / given[0] > kMaxParts) return c.Invalid("split makes too many parts");
    sizes.clear();
    for (int64_t start = 0; start < size; start += given[0]) {
      sizes.push_back(std::min(given[0], size - start));
    }
  }
  int64_t left = size;
  for (int64_t part : sizes) {
    if (part < 0 || part > left) return c.Invalid("the parts do not add up to the axis");
    left -= part;
  }
  if (left != 0) return c.Invalid("the parts do not add up to the axis");
  return sizes;
}

absl::Status SplitToSequence(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(c, c.Int("axis", 0), c.rank(0)));
  const int64_t size = c.shape(0)[static_cast<size_t>(axis)];
  if (!c.Has(1) && size > kMaxParts) return c.Invalid("split makes too many parts");
  EBB_ASSIGN_OR_RETURN(const Ints sizes, PartSizes(c, size));
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  std::vector<ValueId> parts;
  int64_t start = 0;
  for (int64_t part : sizes) {
    EBB_ASSIGN_OR_RETURN(ValueId slice, c.Emit("Slice", {x},
                                               {{"starts", Ints{start}},
                                                {"ends", Ints{start + part}},
                                                {"axes", Ints{axis}},
                                                {"steps", Ints{1}}}));
    if (!c.Has(1) && c.Int("keepdims", 1) == 0) {
      Ints shape(c.shape(0).begin(), c.shape(0).end());
      shape.erase(shape.begin() + axis);
      EBB_ASSIGN_OR_RETURN(slice, c.Emit("Reshape", {slice}, {{"shape", shape}}));
    }
    parts.push_back(slice);
    start += part;
  }
  c.SetSequence(std::move(parts));
  return absl::OkStatus();
}

absl::Status SequenceAt(ConvertContext& c) {
  const std::vector<ValueId>* parts = c.Sequence(0);
  if (parts == nullptr) return c.Invalid("input 0 is no sequence");
  EBB_ASSIGN_OR_RETURN(const Ints position, c.KnownInts(1, "position"));
  const auto size = static_cast<int64_t>(parts->size());
  if (position.size() != 1 || position[0] < -size || position[0] >= size) {
    return c.Invalid(absl::StrCat("the position must be one number below ", size));
  }
  c.SetOutput(0, (*parts)[static_cast<size_t>((position[0] + size) % size)]);
  return absl::OkStatus();
}

constexpr OnnxOp kRows[] = {{"SplitToSequence", 1, 2, kFirstInput, SplitToSequence},
                            {"SequenceAt", 2, 2, kFirstInput, SequenceAt}};

}  // namespace

absl::Span<const OnnxOp> SequenceOps() { return kRows; }

}  // namespace ebb::model
