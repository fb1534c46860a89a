// What the op families share: checked access to inputs and attributes, common shape rules, pieces
// of gradients, costs. Private to graph/ops. Shape rules see untrusted graphs, so nothing here
// aborts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status.h"
#include "graph/op.h"

namespace ebb::graph::ops {

using Types = std::vector<TensorType>;
using Ints = std::vector<int64_t>;

template <class... Args>
absl::Status Invalid(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

// Limits of every tensor, so that kernels and costs may rely on them.
inline constexpr size_t kMaxRank = 8;
inline constexpr int64_t kMaxElements = int64_t{1} << 48;

// ---- Inputs and outputs.

enum class Kind { kAny, kFloat, kNumber, kIndex };  // number: float, i32, i64; index: i32, i64

// Rank <= kMaxRank, dimensions >= 0, and the product of the non-zero ones <= kMaxElements.
absl::Status CheckShape(absl::string_view what, absl::Span<const int64_t> shape);

// Input `i`, present, of the kind and within the limits. `name` is for messages.
absl::StatusOr<const TensorType*> Required(const ShapeContext& context, size_t i,
                                           absl::string_view name, Kind kind = Kind::kFloat);
// The same; null when the input is absent.
absl::StatusOr<const TensorType*> Optional(const ShapeContext& context, size_t i,
                                           absl::string_view name, Kind kind = Kind::kFloat);
// Input `i`, present and of exactly this type.
absl::Status Exactly(const ShapeContext& context, size_t i, absl::string_view name,
                     const TensorType& want);
// Rank of `type` is within [min, max].
absl::Status CheckRank(absl::string_view name, const TensorType& type, size_t min,
                       size_t max = kMaxRank);

// The outputs of a shape rule, within the limits.
absl::StatusOr<Types> Outputs(Types types);
inline absl::StatusOr<Types> Output(DType dtype, Shape shape) {
  return Outputs({{dtype, std::move(shape)}});
}

// ---- Attributes.

// Reads attributes with their checks and keeps the first error, so that a rule reads them all and
// asks Finish() once. After an error the returned values are only safe, not meaningful.
class AttrReader {
 public:
  explicit AttrReader(const Attrs& attrs) : attrs_(attrs) {}

  // An absent attribute without a fallback is an error, here and below.
  int64_t Int(absl::string_view name, int64_t min, int64_t max,
              std::optional<int64_t> fallback = std::nullopt);
  bool Flag(absl::string_view name, bool fallback = false) {
    return Int(name, 0, 1, fallback ? 1 : 0) != 0;
  }
  // Finite and within [min, max]. An int will do, as in Attrs::Float.
  double Float(absl::string_view name, double min, double max,
               std::optional<double> fallback = std::nullopt);
  // Any finite number.
  double Float(absl::string_view name, std::optional<double> fallback = std::nullopt);
  // Infinities too, but not NaN; absent is fine.
  void Bound(absl::string_view name);
  // `length` values, each within [min, max].
  Ints List(absl::string_view name, size_t length, int64_t min, int64_t max);
  // At most kMaxRank values of any size.
  Ints List(absl::string_view name);
  // A shape within the limits.
  Shape Dims(absl::string_view name);
  // Strictly ascending axes of a tensor of this rank.
  Ints Axes(absl::string_view name, size_t rank);
  size_t Axis(absl::string_view name, size_t rank);
  std::string Word(absl::string_view name, std::initializer_list<absl::string_view> allowed,
                   std::optional<absl::string_view> fallback = std::nullopt);
  template <class... Args>
  void Check(bool condition, const Args&... message) {
    if (!condition && status_.ok()) status_ = Invalid(message...);
  }
  // The first error; or which attribute nobody asked for.
  absl::Status Finish() const;

 private:
  // The attribute; null, and an error kept, when it is missing or of another type.
  template <class T>
  const T* Get(absl::string_view name, absl::string_view type, bool required);
  std::optional<double> GetFloat(absl::string_view name, bool required);

  const Attrs& attrs_;
  std::vector<absl::string_view> known_;
  absl::Status status_;
};

inline constexpr int64_t kMaxInt = (int64_t{1} << 31) - 1;  // of window attributes and counts

// ---- Shape rules of many ops.

// Reads (and so admits) the attributes of an op whose rule needs nothing else from them.
using ReadAttrs = void (*)(AttrReader&);
inline void NoAttrs(AttrReader&) {}

// All inputs of one type; one output of that type.
absl::StatusOr<Types> SameTypeShape(const ShapeContext& context, Kind kind, ReadAttrs read);
template <ReadAttrs kRead = NoAttrs, Kind kKind = Kind::kFloat>
absl::StatusOr<Types> SameType(const ShapeContext& context) {
  return SameTypeShape(context, kKind, kRead);
}

// ---- Gradients. Emitting may move the graph's nodes and values: copy what is used after it.

// Is the gradient of this input wanted?
bool Wants(const GradContext& grad, size_t input);
inline Ints ToInts(const Shape& shape) { return Ints(shape.begin(), shape.end()); }
// `value` summed over its broadcast axes down to `shape`; itself when it has that shape.
absl::StatusOr<ValueId> SummedTo(GradContext& grad, ValueId value, const Shape& shape);
// Sets the gradient of a broadcast input: sums `value` down to the input's shape where they differ.
absl::Status SetGradSummed(GradContext& grad, size_t input, ValueId value);
// `value` under another shape of as many elements; itself when it has that shape.
absl::StatusOr<ValueId> Reshaped(GradContext& grad, ValueId value, const Shape& shape);
// <Op>Grad(dy, x) and <Op>Grad(dy, y), with the op's attributes, for input 0.
absl::Status GradFromInput(GradContext& grad);
absl::Status GradFromOutput(GradContext& grad);
// An error if a gradient arrives at an output that cannot pass it on.
absl::Status RefuseGradOf(const GradContext& grad, size_t output, absl::string_view name);

// ---- Costs. Products saturate.

Flops Product(std::initializer_list<int64_t> factors);
int64_t InputElements(const Graph& graph, const Node& node, size_t input);
int64_t OutputElements(const Graph& graph, const Node& node, size_t output);
template <int64_t kPerElement>
Flops PerOutput(const Graph& graph, const Node& node) {
  return Product({kPerElement, OutputElements(graph, node, 0)});
}
template <int64_t kPerElement>
Flops PerInput(const Graph& graph, const Node& node) {
  return Product({kPerElement, InputElements(graph, node, 0)});
}

}  // namespace ebb::graph::ops
