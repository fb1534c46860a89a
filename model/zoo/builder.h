// Layers as PyTorch has them, for the models of the zoo: each adds its parameters under the
// module's name ("layer1.0.conv1.weight") and the nodes that apply it. The first error is kept and
// ends up in Finish(); after it every layer returns an invalid id. Private to model/zoo; one
// thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"

namespace ebb::model::zoo {

using graph::Attrs;
using graph::DType;
using graph::Shape;
using Ints = std::vector<int64_t>;

// Height and width.
struct Size2 {
  int64_t h = 1, w = 1;
};
constexpr Size2 Square(int64_t side) { return {side, side}; }

struct ConvOptions {
  Size2 kernel;
  int64_t stride = 1;
  Size2 pad = {0, 0};
  int64_t groups = 1;
  bool bias = false;
};
// A square kernel that keeps the size at stride 1.
constexpr ConvOptions Same(int64_t kernel, int64_t stride = 1, int64_t groups = 1) {
  return {Square(kernel), stride, Square(kernel / 2), groups, false};
}

class Builder {
 public:
  explicit Builder(int64_t batch) : batch_(batch) {}

  int64_t batch() const { return batch_; }
  // Dimension `axis` of a value; 1 after an error.
  int64_t dim(ValueId id, size_t axis) const;

  // Batch fields: "x" f32 [N,3,side,side]; i64 [N,length].
  ValueId Image(int64_t side);
  ValueId Tokens(const std::string& name, int64_t length);
  ValueId Param(const std::string& name, Shape shape);
  ValueId Constant(const std::string& name, graph::HostTensor tensor);

  // Any op of one output.
  ValueId Op(absl::string_view op, const std::string& name, std::vector<ValueId> inputs,
             Attrs attrs = {});

  ValueId Conv(const std::string& name, ValueId x, int64_t out, const ConvOptions& options);
  ValueId BatchNorm(const std::string& name, ValueId x, double epsilon = 1e-5);
  ValueId LayerNorm(const std::string& name, ValueId x, double epsilon);
  // x [...,in] to [...,out] by "name.weight" [out,in] and "name.bias".
  ValueId Linear(const std::string& name, ValueId x, int64_t out);
  ValueId Embedding(ValueId table, const std::string& name, ValueId indices);
  ValueId Relu(const std::string& name, ValueId x) { return Op("Relu", name, {x}); }
  ValueId Dropout(const std::string& name, ValueId x, double ratio);
  ValueId MaxPool(const std::string& name, ValueId x, int64_t kernel, int64_t stride, int64_t pad);
  ValueId AveragePool(const std::string& name, ValueId x, int64_t kernel, int64_t stride,
                      int64_t pad);
  // [N,C,H,W] to [N,C].
  ValueId GlobalAveragePool(const std::string& name, ValueId x);
  ValueId Reshape(const std::string& name, ValueId x, Ints shape);
  ValueId Transpose(const std::string& name, ValueId x, Ints perm);
  ValueId Concat(const std::string& name, std::vector<ValueId> xs);  // of channels
  // Elements [start, end) of an axis.
  ValueId Slice(const std::string& name, ValueId x, int64_t axis, int64_t start, int64_t end);

  // The graph, whose output is `output` under that name.
  absl::StatusOr<graph::Graph> Finish(ValueId output, const std::string& name);

 private:
  std::vector<ValueId> Ops(absl::string_view op, const std::string& name,
                           std::vector<ValueId> inputs, Attrs attrs);
  ValueId Add(const std::string& name, Shape shape, DType dtype, graph::Role role);

  const int64_t batch_;
  graph::Graph graph_;
  absl::Status status_;
};

}  // namespace ebb::model::zoo
