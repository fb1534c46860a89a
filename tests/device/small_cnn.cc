// The layers of the test network and what it is fed.
#include "tests/device/small_cnn.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "graph/training.h"
#include "tests/testing/run_graph.h"

namespace ebb::testing {
namespace {

using graph::Attrs;
using graph::DType;
using graph::Graph;
using graph::Role;
using Ints = std::vector<int64_t>;

constexpr int64_t kClasses = 5;

class Builder {
 public:
  ValueId Input(std::string name, DType dtype, graph::Shape shape) {
    return graph_.AddValue(std::move(name), {dtype, std::move(shape)}, Role::kInput);
  }
  ValueId Param(std::string name, graph::Shape shape) {
    return graph_.AddValue(std::move(name), {DType::kF32, std::move(shape)}, Role::kParam);
  }
  ValueId Add(absl::string_view op, const std::string& name, std::vector<ValueId> inputs,
              Attrs attrs = {}) {
    if (!status_.ok()) return ValueId();
    auto node = graph_.AddNode(op, name, std::move(inputs), std::move(attrs));
    if (!node.ok()) {
      status_ = node.status();
      return ValueId();
    }
    return graph_.node(*node).outputs[0];
  }
  int64_t Channels(ValueId x) const { return status_.ok() ? graph_.value(x).type.shape[1] : 1; }

  ValueId Conv(const std::string& name, ValueId x, int64_t channels, int64_t kernel,
               int64_t stride) {
    const int64_t pad = kernel / 2;
    return Add("Conv", name, {x, Param(name + ".w", {channels, Channels(x), kernel, kernel})},
               {{"strides", Ints{stride, stride}},
                {"pads", Ints{pad, pad, pad, pad}},
                {"dilations", Ints{1, 1}}});
  }
  ValueId Norm(const std::string& name, ValueId x) {
    const int64_t c = Channels(x);
    const auto buffer = [&](const char* what) {
      return graph_.AddValue(name + what, {DType::kF32, {c}}, Role::kBuffer);
    };
    const ValueId scale = Param(name + ".scale", {c});
    const ValueId bias = Param(name + ".bias", {c});
    const ValueId mean = buffer(".mean");
    return Add("BatchNorm", name, {x, scale, bias, mean, buffer(".var")});
  }
  ValueId ConvNormRelu(const std::string& name, ValueId x, int64_t channels, int64_t stride = 1) {
    return Add("Relu", name + "/relu", {Norm(name + "/norm", Conv(name, x, channels, 3, stride))});
  }

  absl::StatusOr<Graph> Finish(ValueId logits) {
    EBB_RETURN_IF_ERROR(status_);
    graph_.outputs = {logits};
    return std::move(graph_);
  }

 private:
  Graph graph_;
  absl::Status status_;
};

absl::StatusOr<Graph> Forward(int64_t batch, int64_t width) {
  Builder b;
  const ValueId image = b.Input("image", DType::kF32, {batch, 3, 12, 12});
  const ValueId stem = b.ConvNormRelu("stem", image, width);
  const Attrs pool = {{"kernel", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"pads", Ints{0, 0, 0, 0}}};
  Attrs max = pool;
  max.Set("dilations", Ints{1, 1});
  const ValueId pooled = b.Add("MaxPool", "pool", {stem}, max);
  const ValueId inner = b.ConvNormRelu("res", pooled, width);
  const ValueId branch = b.Norm("res/norm2", b.Conv("res/conv2", inner, width, 3, 1));
  const ValueId trunk = b.Add("Relu", "res/out", {b.Add("Add", "res/sum", {branch, pooled})});
  // Squeeze and excitation: a broadcast product with [N,C,1,1].
  const Attrs spatial = {{"axes", Ints{2, 3}}, {"keepdims", int64_t{1}}};
  const ValueId squeezed = b.Add("ReduceMean", "se/mean", {trunk}, spatial);
  const ValueId gate = b.Add("Sigmoid", "se/gate", {b.Conv("se/conv", squeezed, width, 1, 1)});
  const ValueId excited = b.Add("Mul", "se/mul", {trunk, gate});
  Attrs average = pool;
  average.Set("counted_pads", Ints{0, 0, 0, 0});
  const ValueId down = b.Add("AveragePool", "down", {trunk}, average);
  const ValueId other = b.ConvNormRelu("other", excited, width + 4, 2);
  const ValueId joined = b.Add("Concat", "join", {down, other}, {{"axis", int64_t{1}}});
  const int64_t features = (2 * width + 4) * 9;
  const ValueId flat = b.Add("Reshape", "flat", {joined}, {{"shape", Ints{batch, features}}});
  const ValueId logits = b.Add(
      "Gemm", "fc", {flat, b.Param("fc.w", {kClasses, features}), b.Param("fc.b", {kClasses})},
      {{"trans_b", int64_t{1}}});
  return b.Finish(logits);
}

}  // namespace

absl::StatusOr<Graph> SmallCnn(int64_t batch, int64_t width, GraphUse use) {
  EBB_ASSIGN_OR_RETURN(const Graph forward, Forward(batch, width));
  graph::TrainingOptions options;
  options.metrics = {{graph::MetricKind::kLoss}, {graph::MetricKind::kAccuracy}};
  options.optimizer.momentum = 0.9;
  return use == GraphUse::kTraining ? BuildTrainingGraph(forward, options)
                                    : BuildEvalGraph(forward, options);
}

graph::TensorMap SmallCnnFeeds(const Graph& graph, uint64_t seed) {
  graph::TensorMap feeds;
  for (const graph::Value& value : graph.values) {
    if (value.producer.valid() || value.role == Role::kConstant || value.role == Role::kOptState) {
      continue;
    }
    ++seed;
    if (value.name == "ebb.hyper") {
      feeds[value.name] = FromDoubles(value.type, {0.5, 1, 0, 0});
    } else if (value.name == "ebb.valid") {
      feeds[value.name] = FromDoubles(value.type, {3});
    } else if (value.name == "label") {
      feeds[value.name] = RandomTensor(value.type, seed, 0, kClasses);
    } else if (value.role == Role::kBuffer || absl::EndsWith(value.name, ".scale")) {
      feeds[value.name] = RandomTensor(value.type, seed, 0.5, 1.5);
    } else if (value.role == Role::kParam) {
      feeds[value.name] = RandomTensor(value.type, seed, -0.3, 0.3);
    } else {
      feeds[value.name] = RandomTensor(value.type, seed);
    }
  }
  return feeds;
}

}  // namespace ebb::testing
