#include "model/zoo/builder.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace ebb::model::zoo {

using graph::Role;

int64_t Builder::dim(ValueId id, size_t axis) const {
  return status_.ok() && id.valid() ? graph_.value(id).type.shape[axis] : 1;
}

ValueId Builder::Add(const std::string& name, Shape shape, DType dtype, Role role) {
  return graph_.AddValue(name, {dtype, std::move(shape)}, role);
}

ValueId Builder::Image(int64_t side) {
  return Add("x", {batch_, 3, side, side}, DType::kF32, Role::kInput);
}

ValueId Builder::Tokens(const std::string& name, int64_t length) {
  return Add(name, {batch_, length}, DType::kI64, Role::kInput);
}

ValueId Builder::Param(const std::string& name, Shape shape) {
  return Add(name, std::move(shape), DType::kF32, Role::kParam);
}

ValueId Builder::Constant(const std::string& name, graph::HostTensor tensor) {
  return graph_.AddConstant(name, std::move(tensor));
}

std::vector<ValueId> Builder::Ops(absl::string_view op, const std::string& name,
                                  std::vector<ValueId> inputs, Attrs attrs) {
  if (!status_.ok()) return {};
  const auto node = graph_.AddNode(op, name, std::move(inputs), std::move(attrs));
  if (node.ok()) return graph_.node(*node).outputs;
  status_ = node.status();
  return {};
}

ValueId Builder::Op(absl::string_view op, const std::string& name, std::vector<ValueId> inputs,
                    Attrs attrs) {
  const std::vector<ValueId> outputs = Ops(op, name, std::move(inputs), std::move(attrs));
  return outputs.empty() ? ValueId() : outputs[0];
}

ValueId Builder::Conv(const std::string& name, ValueId x, int64_t out, const ConvOptions& o) {
  std::vector<ValueId> inputs = {
      x, Param(name + ".weight", {out, dim(x, 1) / o.groups, o.kernel.h, o.kernel.w})};
  if (o.bias) inputs.push_back(Param(name + ".bias", {out}));
  return Op("Conv", name, std::move(inputs),
            {{"strides", Ints{o.stride, o.stride}},
             {"pads", Ints{o.pad.h, o.pad.w, o.pad.h, o.pad.w}},
             {"dilations", Ints{1, 1}},
             {"groups", o.groups}});
}

ValueId Builder::BatchNorm(const std::string& name, ValueId x, double epsilon) {
  const Shape channels = {dim(x, 1)};
  const ValueId scale = Param(name + ".weight", channels), bias = Param(name + ".bias", channels);
  const ValueId mean = Add(name + ".running_mean", channels, DType::kF32, Role::kBuffer);
  const ValueId var = Add(name + ".running_var", channels, DType::kF32, Role::kBuffer);
  return Op("BatchNorm", name, {x, scale, bias, mean, var},
            {{"epsilon", epsilon}, {"momentum", 0.1}});
}

ValueId Builder::LayerNorm(const std::string& name, ValueId x, double epsilon) {
  const Shape features = {dim(x, 2)};
  return Op("LayerNorm", name,
            {x, Param(name + ".weight", features), Param(name + ".bias", features)},
            {{"axis", int64_t{2}}, {"epsilon", epsilon}});
}

ValueId Builder::Linear(const std::string& name, ValueId x, int64_t out) {
  if (!status_.ok()) return ValueId();
  const size_t rank = graph_.value(x).type.shape.size();
  const ValueId weight = Param(name + ".weight", {out, dim(x, rank - 1)});
  const ValueId bias = Param(name + ".bias", {out});
  const Attrs attrs = {{"trans_b", int64_t{1}}};
  if (rank == 2) return Op("Gemm", name, {x, weight, bias}, attrs);
  return Op("Add", name, {Op("MatMul", name + ".product", {x, weight}, attrs), bias});
}

ValueId Builder::Embedding(ValueId table, const std::string& name, ValueId indices) {
  return Op("Gather", name, {table, indices}, {{"axis", int64_t{0}}});
}

ValueId Builder::Dropout(const std::string& name, ValueId x, double ratio) {
  ValueId rng = graph_.Find("ebb.rng");
  if (!rng.valid()) rng = Add("ebb.rng", {2}, DType::kI64, Role::kScalar);
  return Op("Dropout", name, {x, rng},
            {{"ratio", ratio}, {"stream", static_cast<int64_t>(graph_.nodes.size())}});
}

ValueId Builder::MaxPool(const std::string& name, ValueId x, int64_t kernel, int64_t stride,
                         int64_t pad) {
  return Op("MaxPool", name, {x},
            {{"kernel", Ints{kernel, kernel}},
             {"strides", Ints{stride, stride}},
             {"pads", Ints{pad, pad, pad, pad}},
             {"dilations", Ints{1, 1}}});
}

ValueId Builder::AveragePool(const std::string& name, ValueId x, int64_t kernel, int64_t stride,
                             int64_t pad) {
  return Op("AveragePool", name, {x},
            {{"kernel", Ints{kernel, kernel}},
             {"strides", Ints{stride, stride}},
             {"pads", Ints{pad, pad, pad, pad}},
             {"counted_pads", Ints{pad, pad, pad, pad}}});
}

ValueId Builder::GlobalAveragePool(const std::string& name, ValueId x) {
  return Op("ReduceMean", name, {x}, {{"axes", Ints{2, 3}}, {"keepdims", int64_t{0}}});
}

ValueId Builder::Reshape(const std::string& name, ValueId x, Ints shape) {
  return Op("Reshape", name, {x}, {{"shape", std::move(shape)}});
}

ValueId Builder::Transpose(const std::string& name, ValueId x, Ints perm) {
  return Op("Transpose", name, {x}, {{"perm", std::move(perm)}});
}

ValueId Builder::Concat(const std::string& name, std::vector<ValueId> xs) {
  return Op("Concat", name, std::move(xs), {{"axis", int64_t{1}}});
}

ValueId Builder::Slice(const std::string& name, ValueId x, int64_t axis, int64_t start,
                       int64_t end) {
  return Op(
      "Slice", name, {x},
      {{"starts", Ints{start}}, {"ends", Ints{end}}, {"axes", Ints{axis}}, {"steps", Ints{1}}});
}

absl::StatusOr<graph::Graph> Builder::Finish(ValueId output, const std::string& name) {
  EBB_RETURN_IF_ERROR(status_);
  graph_.Rename(output, name);
  graph_.outputs = {output};
  EBB_RETURN_IF_ERROR(graph::Verify(graph_));
  return std::move(graph_);
}

}  // namespace ebb::model::zoo
