// Models that a parser accepts and whose parts do not fit each other, through all of Prepare: an
// error that says what is wrong or a job that could run, never a crash or a huge allocation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "device/device.h"
#include "graph/text.h"
#include "runtime/prepare.h"
#include "tests/model/onnx_builder.h"
#include "tests/testing/jobs.h"

namespace ebb::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ints = std::vector<int64_t>;

model::onnx::ModelProto Valid() {
  OnnxBuilder b;
  b.Input("x", {kDynamic, 1, 8, 8}).Ramp("c.w", {4, 1, 3, 3}).Ramp("c.b", {4});
  b.Ramp("n.w", {4}).Ramp("n.b", {4}).Ramp("n.mean", {4}).Ramp("n.var", {4});
  b.Ramp("f.w", {10, 64}).Ramp("f.b", {10}).Ints("to", {0, -1});
  b.Node("Conv", {"x", "c.w", "c.b"}, {"c"}, "conv").With("pads", Ints{1, 1, 1, 1});
  b.Node("BatchNormalization", {"c", "n.w", "n.b", "n.mean", "n.var"}, {"n"}, "bn");
  b.Node("Relu", {"n"}, {"r"}).Node("Conv", {"r", "c.w2"}, {"d"}, "second");
  b.Ramp("c.w2", {4, 1, 1, 1}).With("group", 4).Node("Add", {"r", "d"}, {"s"});
  b.Node("MaxPool", {"s"}, {"p"}).With("kernel_shape", Ints{2, 2}).With("strides", Ints{2, 2});
  b.Node("Reshape", {"p", "to"}, {"flat"});
  b.Node("Gemm", {"flat", "f.w", "f.b"}, {"logits"}).With("transB", 1).Output("logits");
  return b.proto();
}

// Exchanges names, numbers, ops and whole parts of a model at random.
class Damage {
 public:
  explicit Damage(unsigned seed) : random_(seed) {}

  void Once(model::onnx::ModelProto* model) {
    auto* graph = model->mutable_graph();
    auto* node = graph->mutable_node(Below(graph->node_size()));
    auto* tensor = graph->mutable_initializer(Below(graph->initializer_size()));
    auto* ends = random_() % 2 == 0 ? graph->mutable_input() : graph->mutable_output();
    switch (random_() % 13) {
      case 0:
        node->set_op_type(Pick(kOps));
        break;
      case 1:
        node->set_input(Below(node->input_size()), AnyName(*graph));
        break;
      case 2:
        node->set_output(0, AnyName(*graph));
        break;
      case 3:
        node->add_input(AnyName(*graph));
        break;
      case 4:
        node->mutable_input()->RemoveLast();
        if (node->input_size() == 0) node->add_input(AnyName(*graph));
        break;
      case 5:
        for (auto& attr : *node->mutable_attribute()) {
          attr.set_i(Pick(kNumbers));
          if (attr.ints_size() > 0) attr.set_ints(Below(attr.ints_size()), Pick(kNumbers));
        }
        break;
      case 6:
        if (ends->empty()) break;
        ends->Mutable(0)->set_name(AnyName(*graph));
        break;
      case 7: {
        if (ends->empty()) break;
        auto* shape = ends->Mutable(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
        if (shape->dim_size() == 0) break;
        shape->mutable_dim(Below(shape->dim_size()))->set_dim_value(Pick(kNumbers));
        break;
      }
      case 8:
        if (tensor->dims_size() > 0) {
          tensor->set_dims(Below(tensor->dims_size()), Pick(kNumbers));
        }
        break;
      case 9:
        tensor->set_name(AnyName(*graph));
        break;
      case 10:
        graph->mutable_node()->SwapElements(Below(graph->node_size()), Below(graph->node_size()));
        graph->mutable_node()->RemoveLast();
        if (graph->node_size() == 0) graph->add_node()->add_input("x");
        break;
      case 11:
        *graph->add_output() = graph->output_size() > 0 ? graph->output(0) : graph->input(0);
        graph->mutable_output(graph->output_size() - 1)->set_name(AnyName(*graph));
        break;
      default:
        for (size_t i = 0; i + 8 <= tensor->raw_data().size(); i += 8) {
          const int64_t value = Pick(kNumbers);
          tensor->mutable_raw_data()->replace(i, 8, reinterpret_cast<const char*>(&value), 8);
        }
    }
  }

 private:
  static constexpr int64_t kNumbers[] = {0,
                                         1,
                                         -1,
                                         2,
                                         3,
                                         4,
                                         7,
                                         8,
                                         64,
                                         int64_t{1} << 31,
                                         int64_t{1} << 32,
                                         int64_t{1} << 40,
                                         INT64_MIN,
                                         INT64_MAX,
                                         INT32_MIN,
                                         INT32_MAX};
  static constexpr const char* kOps[] = {
      "Relu",        "Conv",    "Gemm",   "MatMul", "Expand",     "Transpose", "MaxPool",
      "AveragePool", "Softmax", "Concat", "Gather", "ReduceMean", "Dropout",   "Sum",
      "Pad",         "Flatten", "Mul",    "Sub",    "LRN",        "Shape",     "\xff"};

  int Below(int count) {
    return count < 1 ? 0 : static_cast<int>(random_() % static_cast<unsigned>(count));
  }
  template <class T, size_t n>
  T Pick(const T (&from)[n]) {
    return from[random_() % n];
  }
  std::string AnyName(const model::onnx::GraphProto& graph) {
    switch (random_() % 4) {
      case 0:
        return graph.initializer(Below(graph.initializer_size())).name();
      case 1:
        return random_() % 4 == 0 ? "" : "x";
      default:
        const auto& node = graph.node(Below(graph.node_size()));
        return node.output_size() > 0 ? node.output(0) : "";
    }
  }

  std::mt19937 random_;
};

runtime::JobSpec JobOf(const model::onnx::ModelProto& model, int64_t batch) {
  runtime::JobSpec spec = MakeJob({.net = Net::kCnn, .batch = batch, .validate = true});
  spec.model = {};
  spec.model.onnx = std::make_shared<const std::string>(model.SerializeAsString());
  return spec;
}

class HostileModels : public ::testing::Test {
 protected:
  absl::Status Prepare(const model::onnx::ModelProto& model, int64_t batch, Bytes memory) {
    return runtime::Prepare(JobOf(model, batch), *device_, {.quantum = MiB(1), .memory = memory})
        .status();
  }
  const std::unique_ptr<device::Device> device_ = *device::OpenDevice("cpu", {});
};

TEST_F(HostileModels, TheUndamagedModelIsFine) {
  const absl::Status status = Prepare(Valid(), 4, MiB(64));
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(HostileModels, DamagedAtRandomTheyNeverCrash) {
  int fine = 0, refused = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    Damage damage(seed);
    model::onnx::ModelProto model = Valid();
    for (unsigned i = 0; i < 1 + seed % 3; ++i) damage.Once(&model);
    const absl::Status status = Prepare(model, seed % 2 == 0 ? 1 : 4, MiB(64));
    ++(status.ok() ? fine : refused);
    EXPECT_TRUE(status.ok() || !status.message().empty());
    EXPECT_NE(status.code(), absl::StatusCode::kInternal) << status;
  }
  EXPECT_GT(fine, 100);
  EXPECT_GT(refused, 300);
}

TEST_F(HostileModels, AnOutputThatIsAnUnusedConstantIsRefused) {
  model::onnx::ModelProto model = Valid();
  model.mutable_graph()->mutable_output(0)->set_name("to");
  const absl::Status status = Prepare(model, 4, MiB(64));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("'to'"));
}

TEST_F(HostileModels, AStepLargerThanThePoolIsNotCompiled) {
  const auto graph = graph::ParseGraph(
      "x = input f32[32,64]; w = param f32[10,64]; k = param f32[1,1,3,3]\n"
      "r = Reshape(x) {shape=[32,1,64,1]}; e = Expand(r) {shape=[32,1,64,33554432]}\n"
      "c = Conv(e, k) {strides=[1,1], pads=[1,1,1,1], dilations=[1,1], groups=1}\n"
      "m = ReduceSum(c) {axes=[0,1,2,3], keepdims=0}\n"
      "l = Gemm(x, w) {trans_b=1}; y = Add(l, m); output y");
  ASSERT_TRUE(graph.ok()) << graph.status();
  runtime::JobSpec spec = MakeJob({});
  spec.model = {};
  spec.model.graph = std::make_shared<const graph::Graph>(*graph);
  spec.model.reinit = {{"*", "default"}};
  const auto prepared = runtime::Prepare(spec, *device_, {.quantum = MiB(1), .memory = GiB(1)});
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_FALSE((*prepared)->IsPlanned());
  EXPECT_GE((*prepared)->Peak(), GiB(256));  // Expand's output
  // A pool that could hold it: oneDNN must not see more elements than it can count.
  const absl::Status status = runtime::Prepare(spec, *device_, {.quantum = GiB(64)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(status.message(), HasSubstr("has more than 2147483647 elements"));
}

TEST_F(HostileModels, ParametersLargerThanThePoolAreRefusedBeforeTheyAreDrawn) {
  runtime::JobSpec spec = MakeJob({});
  spec.model = {};
  const auto graph = graph::ParseGraph(
      "x = input f32[32,64]; w = param f32[17179869184,64]; b = param f32[10,64]\n"
      "y = Gemm(x, b) {trans_b=1}; output y");
  ASSERT_TRUE(graph.ok()) << graph.status();
  spec.model.graph = std::make_shared<const graph::Graph>(*graph);
  spec.model.reinit = {{"*", "default"}};
  const absl::Status status =
      runtime::Prepare(std::move(spec), *device_, {.quantum = MiB(1), .memory = GiB(1)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("never: needs at least 4.0 TiB"));
}

TEST_F(HostileModels, AGraphOfVeryManyNodesIsRefused) {
  OnnxBuilder b;
  b.Input("x", {kDynamic, 64}).Ramp("w", {64, 10}).Node("MatMul", {"x", "w"}, {"h0"});
  constexpr int kNodes = 9000;
  for (int i = 0; i < kNodes; ++i) {
    b.Node("Relu", {absl::StrCat("h", i)}, {absl::StrCat("h", i + 1)});
  }
  b.Output(absl::StrCat("h", kNodes));
  const absl::Status status = Prepare(b.proto(), 32, MiB(64));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("nodes; this version plans at most 16384"));
}

TEST_F(HostileModels, InitialValuesThatAreNotFiniteAreRefusedByName) {
  model::onnx::ModelProto model = Valid();
  for (auto& tensor : *model.mutable_graph()->mutable_initializer()) {
    if (tensor.name() != "f.w") continue;
    const float nan = NAN;
    tensor.mutable_raw_data()->replace(12, 4, reinterpret_cast<const char*>(&nan), 4);
  }
  const absl::Status status = Prepare(model, 4, MiB(64));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("'f.w' is not finite at element 3"));
}

TEST_F(HostileModels, WeightsOfAPartOfTheModelAreAWarning) {
  runtime::JobSpec spec = JobOf(Valid(), 4);
  graph::TensorMap weights;
  weights["f.b"] = graph::HostTensor::Zeros({graph::DType::kF32, {10}});
  spec.model.weights = std::make_shared<const graph::TensorMap>(weights);
  const auto prepared =
      runtime::Prepare(std::move(spec), *device_, {.quantum = MiB(1), .memory = MiB(64)});
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  ASSERT_FALSE((*prepared)->warnings.empty());
  EXPECT_THAT((*prepared)->warnings[0], HasSubstr("model.weights lacks 8 of the model's 9"));
}

TEST_F(HostileModels, WhatTheUserFreezesIsNoWarningAndWhatHasNoUseIsOne) {
  const auto warnings = [&](const char* frozen, const char* model) {
    runtime::JobSpec spec = JobOf(Valid(), 4);
    const auto graph = graph::ParseGraph(model);
    EXPECT_TRUE(graph.ok()) << graph.status();
    spec.model.onnx = nullptr;
    spec.model.graph = std::make_shared<const graph::Graph>(*graph);
    spec.model.reinit = {{"*", "zeros"}};
    if (frozen != nullptr) {
      spec.groups.push_back({.pattern = frozen, .optimizer = spec.optimizer});
      spec.groups.back().optimizer.frozen = true;
    }
    const auto prepared =
        runtime::Prepare(std::move(spec), *device_, {.quantum = MiB(1), .memory = MiB(64)});
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    return prepared.ok() ? (*prepared)->warnings : std::vector<std::string>();
  };
  const char* plain =
      "x = input f32[4,64]\nw = param f32[10,64]\nb = param f32[10]\n"
      "y = Gemm(x, w, b) {trans_b=1}\noutput y\n";
  const char* idle =
      "x = input f32[4,64]\nw = param f32[10,64]\nb = param f32[10]\nu1 = param f32[2]\n"
      "u2 = param f32[2]\ny = Gemm(x, w, b) {trans_b=1}\noutput y\n";
  EXPECT_THAT(warnings(nullptr, plain), IsEmpty());
  EXPECT_THAT(warnings("b", plain), IsEmpty());
  EXPECT_THAT(warnings("b", idle),
              ElementsAre("the loss does not depend on parameters u1, u2: not trained"));
  EXPECT_THAT(warnings("u*", idle), IsEmpty());
}

// Fine-tuning: the head of another model, which reinit draws, may lack or have another shape.
TEST_F(HostileModels, WeightsOfAnotherHeadAreTakenWhereReinitDrawsIt) {
  const auto warnings =
      [&](graph::TensorMap weights,
          std::vector<model::ReinitRule> reinit) -> absl::StatusOr<std::vector<std::string>> {
    runtime::JobSpec spec = JobOf(Valid(), 4);
    spec.model.weights = std::make_shared<const graph::TensorMap>(std::move(weights));
    spec.model.reinit = std::move(reinit);
    EBB_ASSIGN_OR_RETURN(
        const auto prepared,
        runtime::Prepare(std::move(spec), *device_, {.quantum = MiB(1), .memory = MiB(64)}));
    return prepared->warnings;
  };
  const auto zeros = [](graph::Shape shape) {
    return graph::HostTensor::Zeros({graph::DType::kF32, std::move(shape)});
  };
  const graph::TensorMap other = {
      {"f.b", zeros({7})},
      {"bn.num_batches_tracked", graph::HostTensor::Zeros({graph::DType::kI64, {}})}};
  const auto refused = warnings(other, {});
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("'f.b' is f32[7], the model has f32[10]; draw it anew with model.reinit: "
                        "{\"f.b\": default}"));
  const auto head = warnings(other, {{"f.*", "default"}});
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_THAT((*head)[0], HasSubstr("model.weights lacks"));
  const auto all = warnings(other, {{"*", "default"}});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(*all, ::testing::Not(::testing::Contains(HasSubstr("model.weights lacks"))));
}

}  // namespace
}  // namespace ebb::testing
