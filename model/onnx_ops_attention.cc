// Attention (opset 23): two products with a softmax between them. Heads of queries that share a
// head of keys and values are one more axis of the products, so nothing is repeated in memory.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/onnx_ops.h"
#include "model/onnx_shapes.h"

namespace ebb::model {
namespace {

constexpr size_t kMask = 3;

// One operand as [batch, heads, positions, size].
struct Heads {
  ValueId id;
  int64_t batch = 0, heads = 0, positions = 0, size = 0;
};

absl::StatusOr<Heads> ReadHeads(ConvertContext& c, size_t i, absl::string_view count) {
  const Shape& s = c.shape(i);
  Heads x;
  EBB_ASSIGN_OR_RETURN(x.id, c.In(i));
  if (s.size() == 4) {
    x.batch = s[0], x.heads = s[1], x.positions = s[2], x.size = s[3];
  } else if (s.size() == 3) {
    x.heads = c.Int(count, 0);
    if (x.heads < 1 || s[2] % x.heads != 0) {
      return c.Invalid(absl::StrCat(count, " is ", x.heads, ", it must divide the last axis of ",
                                    graph::ToString(s)));
    }
    x.batch = s[0], x.positions = s[1], x.size = s[2] / x.heads;
    EBB_ASSIGN_OR_RETURN(
        x.id, c.Emit("Reshape", {x.id}, {{"shape", Ints{x.batch, x.positions, x.heads, x.size}}}));
    EBB_ASSIGN_OR_RETURN(x.id, c.Emit("Transpose", {x.id}, {{"perm", Ints{0, 2, 1, 3}}}));
  } else {
    return c.Invalid(
        absl::StrCat("input ", i, " is ", graph::ToString(s), ", it must have 3 or 4 dimensions"));
  }
  if (x.batch < 1 || x.heads < 1 || x.positions < 1 || x.size < 1) {
    return c.Invalid(absl::StrCat("input ", i, " has no elements"));
  }
  return x;
}

// [batch, kv heads, group, positions, size]; group 1 for keys and values.
absl::StatusOr<ValueId> Grouped(ConvertContext& c, const Heads& x, int64_t kv_heads) {
  return c.Emit("Reshape", {x.id},
                {{"shape", Ints{x.batch, kv_heads, x.heads / kv_heads, x.positions, x.size}}});
}

absl::StatusOr<ValueId> MinusInfinity(ConvertContext& c) {
  return c.Constant(ScalarTensor(c.type(0).dtype, -std::numeric_limits<double>::infinity()));
}

// Scores [batch, heads, queries, keys] without those that a mask forbids.
absl::StatusOr<ValueId> Masked(ConvertContext& c, ValueId scores, int64_t queries, int64_t keys) {
  EBB_ASSIGN_OR_RETURN(const ValueId nothing, MinusInfinity(c));
  if (c.Int("is_causal", 0) != 0) {
    EBB_ASSIGN_OR_RETURN(HostTensor seen, c.Allocate({DType::kBool, {queries, keys}}));
    for (int64_t q = 0; q < queries; ++q) {
      for (int64_t k = 0; k < keys; ++k) {
        seen.as<uint8_t>()[static_cast<size_t>(q * keys + k)] = k <= q;
      }
    }
    EBB_ASSIGN_OR_RETURN(scores, c.Emit("Where", {c.Constant(std::move(seen)), scores, nothing}));
  }
  if (!c.Has(kMask)) return scores;
  EBB_ASSIGN_OR_RETURN(const ValueId mask, c.In(kMask));
  const Shape& shape = c.shape(kMask);
  const Shape& want = c.TypeOf(scores).shape;
  if (graph::BroadcastShapes(shape, want) != want) {
    return c.Invalid(absl::StrCat("attn_mask is ", graph::ToString(shape),
                                  ", it must broadcast to ", graph::ToString(want)));
  }
  if (c.type(kMask).dtype == DType::kBool) return c.Emit("Where", {mask, scores, nothing});
  return c.Emit("Add", {scores, mask});
}

absl::Status CheckSupported(const ConvertContext& c) {
  if (c.Has(4) || c.Has(5)) {
    return c.Unimplemented(
        "past keys and values belong to generation; export without a cache "
        "(use_cache=False)");
  }
  for (size_t i = 1; i < c.num_outputs(); ++i) {
    if (c.Wants(i)) return c.Unimplemented("only its first output is supported");
  }
  const bool masked = c.Has(kMask) || c.Int("is_causal", 0) != 0;
  if (c.Float("softcap", 0) != 0 && masked) {
    return c.Unimplemented("softcap together with a mask is not supported");
  }
  return absl::OkStatus();
}

absl::StatusOr<ValueId> Scores(ConvertContext& c, const Heads& q, const Heads& k) {
  const double scale = c.Float("scale", 1 / std::sqrt(static_cast<double>(q.size)));
  EBB_ASSIGN_OR_RETURN(ValueId queries, Grouped(c, q, k.heads));
  EBB_ASSIGN_OR_RETURN(queries, c.Emit("Scale", {queries}, {{"scale", scale}}));
  EBB_ASSIGN_OR_RETURN(const ValueId keys, Grouped(c, k, k.heads));
  EBB_ASSIGN_OR_RETURN(ValueId scores,
                       c.Emit("MatMul", {queries, keys}, {{"trans_b", int64_t{1}}}));
  EBB_ASSIGN_OR_RETURN(
      scores,
      c.Emit("Reshape", {scores}, {{"shape", Ints{q.batch, q.heads, q.positions, k.positions}}}));
  const double cap = c.Float("softcap", 0);
  if (cap != 0) {
    EBB_ASSIGN_OR_RETURN(scores, c.Emit("Scale", {scores}, {{"scale", 1 / cap}}));
    EBB_ASSIGN_OR_RETURN(scores, c.Emit("Tanh", {scores}));
    EBB_ASSIGN_OR_RETURN(scores, c.Emit("Scale", {scores}, {{"scale", cap}}));
  }
  return Masked(c, scores, q.positions, k.positions);
}

absl::Status Attention(ConvertContext& c) {
  EBB_RETURN_IF_ERROR(CheckSupported(c));
  EBB_ASSIGN_OR_RETURN(const Heads q, ReadHeads(c, 0, "q_num_heads"));
  EBB_ASSIGN_OR_RETURN(const Heads k, ReadHeads(c, 1, "kv_num_heads"));
  EBB_ASSIGN_OR_RETURN(const Heads v, ReadHeads(c, 2, "kv_num_heads"));
  if (q.batch != k.batch || q.batch != v.batch || k.heads != v.heads ||
      k.positions != v.positions || q.size != k.size || q.heads % k.heads != 0) {
    return c.Invalid(absl::StrCat("queries ", graph::ToString(c.shape(0)), ", keys ",
                                  graph::ToString(c.shape(1)), " and values ",
                                  graph::ToString(c.shape(2)), " do not fit"));
  }
  EBB_ASSIGN_OR_RETURN(const ValueId scores, Scores(c, q, k));
  EBB_ASSIGN_OR_RETURN(ValueId share, c.Emit("Softmax", {scores},
                                             {{"axis", int64_t{3}}, {"zero_masked", int64_t{1}}}));
  EBB_ASSIGN_OR_RETURN(
      share,
      c.Emit("Reshape", {share},
             {{"shape", Ints{q.batch, k.heads, q.heads / k.heads, q.positions, k.positions}}}));
  EBB_ASSIGN_OR_RETURN(const ValueId values, Grouped(c, v, v.heads));
  EBB_ASSIGN_OR_RETURN(ValueId y, c.Emit("MatMul", {share, values}));
  const Ints heads{q.batch, q.heads, q.positions, v.size};
  if (c.rank(0) == 4) return c.Result("Reshape", {y}, {{"shape", heads}});
  EBB_ASSIGN_OR_RETURN(y, c.Emit("Reshape", {y}, {{"shape", heads}}));
  EBB_ASSIGN_OR_RETURN(y, c.Emit("Transpose", {y}, {{"perm", Ints{0, 2, 1, 3}}}));
  return c.Result("Reshape", {y}, {{"shape", Ints{q.batch, q.positions, q.heads * v.size}}});
}

constexpr OnnxOp kRows[] = {{"Attention", 3, 6, kAllInputs, Attention}};

}  // namespace

absl::Span<const OnnxOp> AttentionOps() { return kRows; }

}  // namespace ebb::model
