// The op table: everything that the graph knows about an op is one row (docs/ops.md lists them).
// Rows live in graph/ops/*.cc, grouped by family; kernels live in device/<name>/*.cc under the same
// op name. The table is immutable and may be read from any thread.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/graph.h"

namespace ebb::graph {

// What a shape rule sees. `inputs[i]` is null for an absent optional input.
struct ShapeContext {
  std::vector<const TensorType*> inputs;
  const Attrs& attrs;
};

// What a gradient rule sees: it emits nodes and says which value is the gradient of which input.
class GradContext {
 public:
  virtual ~GradContext() = default;
  virtual const Node& node() const = 0;  // the forward node
  virtual const TensorType& type(ValueId value) const = 0;
  virtual ValueId dy(size_t output) const = 0;  // invalid: no gradient arrives
  virtual bool needs(size_t input) const = 0;   // is dx(input) wanted?
  // Appends one backward node of one output (or returns all outputs with EmitAll).
  virtual absl::StatusOr<ValueId> Emit(absl::string_view op, std::vector<ValueId> inputs,
                                       Attrs attrs = {}) = 0;
  virtual absl::StatusOr<std::vector<ValueId>> EmitAll(absl::string_view op,
                                                       std::vector<ValueId> inputs,
                                                       Attrs attrs = {}) = 0;
  // The gradient of `input`; at most once an input. Its shape must be the input's.
  virtual void SetGrad(size_t input, ValueId value) = 0;
};

struct OpCost {
  Flops flops;  // a multiply-add counts two
  Bytes bytes;  // read and written once
};

struct OpDef {
  absl::string_view name;
  int min_inputs = 1;
  int max_inputs = 1;  // -1: any number
  // Types of the outputs, or InvalidArgument that says what does not fit.
  absl::StatusOr<std::vector<TensorType>> (*shape)(const ShapeContext&) = nullptr;
  // Null: not differentiable; asking for a gradient through it is an error.
  absl::Status (*gradient)(GradContext&) = nullptr;
  // Null: no arithmetic; bytes of inputs and outputs only.
  Flops (*flops)(const Graph&, const Node&) = nullptr;
  // Output 0 is the same bytes as input 0 under another shape (Reshape, Identity).
  bool is_view = false;
  // Output 0 may overwrite this input when it dies here and has the same size. -1: never.
  int in_place = -1;
  // Inputs that the node writes: parameters and slots of updates, running statistics.
  std::vector<int> mutates = {};
  // Same physical layout in = same layout out, element by element (no broadcasting).
  bool elementwise = false;
};

// Null when there is no such op.
const OpDef* FindOp(absl::string_view name);
std::vector<const OpDef*> AllOps();  // sorted by name
OpCost CostOf(const Graph& graph, const Node& node);

// The families, each in graph/ops/<family>.cc; FindOp() is the only reader.
namespace ops {
// The gradient of steps such as Floor: it is zero, so nothing flows and nothing is an error.
absl::Status ZeroGradient(GradContext& grad);

absl::Span<const OpDef> Elementwise();  // unary and their gradients
absl::Span<const OpDef> Binary();       // broadcasting, SumTo, AddN
absl::Span<const OpDef> Logic();        // comparisons, And, Or, Not: bool results
absl::Span<const OpDef> Matmul();       // MatMul, Gemm
absl::Span<const OpDef> Conv();
absl::Span<const OpDef> Pool();
absl::Span<const OpDef> Norm();       // BatchNorm, LRN, softmax
absl::Span<const OpDef> GroupNorm();  // group and instance normalisation
absl::Span<const OpDef> Movement();   // Reshape, Transpose, Concat, Slice, Pad, Gather, ...
absl::Span<const OpDef> Index();      // elements and slices by index, TopK, ArgMax, CumSum
absl::Span<const OpDef> Reduce();
absl::Span<const OpDef> Loss();  // losses and their gradients
absl::Span<const OpDef> Metric();
absl::Span<const OpDef> Update();     // optimizers
absl::Span<const OpDef> Random();     // Dropout
absl::Span<const OpDef> Recurrent();  // Lstm, Gru
absl::Span<const OpDef> EmbeddingBags();
}  // namespace ops

}  // namespace ebb::graph
