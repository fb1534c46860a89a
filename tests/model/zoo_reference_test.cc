// The zoo against PyTorch's own models (torchvision, Hugging Face): the same parameters under the
// same names and the same arithmetic (zoo_reference.txt), and, where its files are at hand, the
// same step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "device/device.h"
#include "graph/op.h"
#include "graph/training.h"
#include "model/safetensors.h"
#include "model/zoo/zoo.h"
#include "tests/model/onnx_builder.h"
#include "tests/testing/run_graph.h"

namespace ebb {
namespace {

using graph::Graph;
using graph::HostTensor;
using graph::Node;
using graph::Role;
using graph::Value;

// Parameters and statistics: name -> type as text.
using Contents = std::map<std::string, std::string>;

Contents ContentsOf(const Graph& graph) {
  Contents contents;
  for (const Value& value : graph.values) {
    if (value.role == Role::kParam || value.role == Role::kBuffer) {
      contents[value.name] = graph::ToString(value.type);
    }
  }
  return contents;
}

int64_t ForwardMacs(const Graph& graph) {
  int64_t flops = 0;
  for (const Node& node : graph.nodes) {
    if (node.phase != graph::Phase::kForward) continue;
    if (node.op->name == "Conv" || node.op->name == "MatMul" || node.op->name == "Gemm") {
      flops += graph::CostOf(graph, node).flops.count();
    }
  }
  return flops / 2;
}

struct Reference {
  std::string name;
  int64_t macs = 0;
  Contents contents;
};

std::vector<Reference> ReadReferences() {
  std::vector<Reference> references;
  const std::string text =
      testing::ReadBinary(absl::StrCat(EBB_SOURCE_DIR, "/tests/model/zoo_reference.txt"));
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] == "model") {
      references.push_back({words[1], 0, {}});
      EXPECT_TRUE(absl::SimpleAtoi(words[2], &references.back().macs)) << line;
    } else {
      references.back().contents[words[0]] = words[1];
    }
  }
  return references;
}

TEST(ZooReference, HasTheSameParametersAndTheSameArithmetic) {
  const std::vector<Reference> references = ReadReferences();
  ASSERT_EQ(references.size(), model::Zoo().size());
  for (const Reference& reference : references) {
    const auto zoo = model::BuildZooModel(reference.name, 1);
    ASSERT_TRUE(zoo.ok()) << zoo.status();
    EXPECT_EQ(ContentsOf(zoo->graph), reference.contents) << reference.name;
    if (reference.macs == 0) continue;  // a transformer
    EXPECT_EQ(ForwardMacs(zoo->graph), reference.macs) << reference.name;
  }
}

// ---- One step on the cpu device.

// What PyTorch without dropout, or importing from ONNX, makes of attributes.
void TurnDropoutOff(Graph* graph) {
  for (Node& node : graph->nodes) {
    if (node.op->name == "Dropout") node.attrs.Set("ratio", 0.0);
  }
}
void RoundAsOnnx(Graph* graph) {  // numbers go through a float
  for (Node& node : graph->nodes) {
    if (node.op->name != "BatchNorm") continue;
    node.attrs.Set("epsilon", double{static_cast<float>(node.attrs.Float("epsilon", 0))});
    node.attrs.Set("momentum", 1 - double{0.9F});
  }
}

struct Results {
  double loss = 0;
  graph::TensorMap state;  // parameters and statistics after the step
};

// Plain gradient descent at rate 1, so that a parameter's change is its gradient.
absl::StatusOr<Results> Step(const Graph& forward, const graph::LossSpec& loss,
                             const graph::TensorMap& feeds) {
  EBB_ASSIGN_OR_RETURN(const Graph training,
                       graph::BuildTrainingGraph(
                           forward, {.loss = loss, .metrics = {{graph::MetricKind::kLoss, 1}}}));
  EBB_ASSIGN_OR_RETURN(const auto device, device::OpenDevice("cpu", {}));
  EBB_ASSIGN_OR_RETURN(const Graph lowered, device->Lower(training));
  EBB_ASSIGN_OR_RETURN(auto runner,
                       testing::GraphRunner::Make(*device, lowered, testing::Placement::kShared));
  for (const Value& value : lowered.values) {
    if (const auto it = feeds.find(value.name); it != feeds.end()) {
      EBB_RETURN_IF_ERROR(runner->Set(value.name, it->second));
    } else if (value.name == "ebb.rng") {
      EBB_RETURN_IF_ERROR(
          runner->Set(value.name, HostTensor::Of<int64_t>(graph::DType::kI64, {2}, {1, 1})));
    } else if (value.name == "ebb.hyper") {
      EBB_RETURN_IF_ERROR(
          runner->Set(value.name, HostTensor::Of<double>(graph::DType::kF64, {4}, {1, 1, 0, 0})));
    }
  }
  EBB_RETURN_IF_ERROR(runner->Run());
  Results results;
  EBB_ASSIGN_OR_RETURN(const HostTensor value, runner->Get("metric/loss"));
  results.loss = testing::ToDoubles(value)[0];
  for (const Value& value : forward.values) {
    if (value.role != Role::kParam && value.role != Role::kBuffer) continue;
    EBB_ASSIGN_OR_RETURN(results.state[value.name], runner->Get(value.name));
  }
  return results;
}

// Relative L2 of the difference of two changes of all tensors.
double Difference(const graph::TensorMap& start, const graph::TensorMap& a,
                  const graph::TensorMap& b) {
  double difference = 0, change = 0;
  for (const auto& [name, tensor] : start) {
    const absl::Span<const float> from = tensor.as<float>();
    const absl::Span<const float> to_a = a.at(name).as<float>();
    const absl::Span<const float> to_b = b.at(name).as<float>();
    for (size_t i = 0; i < from.size(); ++i) {
      const double da = double{to_a[i]} - double{from[i]}, db = double{to_b[i]} - double{from[i]};
      difference += (da - db) * (da - db);
      change += db * db;
    }
  }
  return std::sqrt(difference / change);
}

class ZooStep : public ::testing::TestWithParam<const char*> {
 protected:
  // Skips the test when the file is absent.
  void Find(const std::string& extension) {
    const char* folder = std::getenv("EBB_ZOO_STEPS");
    path_ = absl::StrCat(folder == nullptr ? "" : folder, "/", GetParam(), extension);
    if (folder != nullptr && std::filesystem::exists(path_)) return;
    GTEST_SKIP() << path_ << " is absent: make it by tests/model/zoo_reference.py --steps DIR and "
                 << "set EBB_ZOO_STEPS=DIR";
  }
  std::string path_;
};

class ZooImageStep : public ZooStep {
  void SetUp() override { Find(".onnx"); }
};

TEST_P(ZooImageStep, IsThatOfTheImportedModelToTheBit) {
  constexpr int64_t kBatch = 2;
  model::ImportOptions options;
  options.batch_size = kBatch;
  options.dropout = 0;
  options.untie_uniform = true;
  const auto imported = model::ImportOnnx(testing::ReadBinary(path_), options);
  ASSERT_TRUE(imported.ok()) << imported.status();
  auto zoo = model::BuildZooModel(GetParam(), kBatch);
  ASSERT_TRUE(zoo.ok()) << zoo.status();
  TurnDropoutOff(&zoo->graph);
  RoundAsOnnx(&zoo->graph);
  EXPECT_EQ(ContentsOf(zoo->graph), ContentsOf(imported->graph));
  EXPECT_EQ(ForwardMacs(zoo->graph), ForwardMacs(imported->graph));

  graph::TensorMap feeds = imported->weights;
  feeds["x"] = testing::RandomTensor(zoo->graph.value(zoo->graph.Find("x")).type, 5);
  feeds["label"] = HostTensor::Of<int64_t>(graph::DType::kI64, {kBatch}, {3, 700});
  const auto got = Step(zoo->graph, zoo->loss, feeds);
  const auto want = Step(imported->graph, zoo->loss, feeds);
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_TRUE(want.ok()) << want.status();
  EXPECT_EQ(got->loss, want->loss);
  // DenseNet joins its features layer by layer and so adds up their gradients in another order.
  const double tolerance = absl::string_view(GetParam()) == "densenet121" ? 1e-3 : 0;
  EXPECT_LE(Difference(imported->weights, got->state, want->state), tolerance);
}

INSTANTIATE_TEST_SUITE_P(All, ZooImageStep,
                         ::testing::Values("resnet50", "resnet152", "vgg16", "inception_v3",
                                           "densenet121", "mobilenet_v2"),
                         [](const auto& info) { return std::string(info.param); });

class ZooTokenStep : public ZooStep {
  void SetUp() override { Find(".safetensors"); }
};

TEST_P(ZooTokenStep, IsThatOfPyTorch) {
  const auto tensors = model::ReadSafetensors(testing::ReadBinary(path_));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  auto zoo = model::BuildZooModel(GetParam(), tensors->at("input_ids").type.shape[0]);
  ASSERT_TRUE(zoo.ok()) << zoo.status();
  TurnDropoutOff(&zoo->graph);
  const auto got = Step(zoo->graph, zoo->loss, *tensors);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_NEAR(got->loss, testing::ToDoubles(tensors->at("loss"))[0], 1e-4);
  graph::TensorMap start, want;
  for (const auto& [name, after] : got->state) {
    start[name] = tensors->at(name);
    want[name] = tensors->at(name);
    const HostTensor& gradient = tensors->at(absl::StrCat("grad/", name));
    for (size_t i = 0; i < gradient.as<float>().size(); ++i) {
      want[name].as<float>()[i] -= gradient.as<float>()[i];
    }
  }
  EXPECT_LE(Difference(start, got->state, want), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(All, ZooTokenStep,
                         ::testing::Values("bert_base_128", "bert_base_384", "gpt2"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ebb
