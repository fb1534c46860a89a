// The ONNX project's light models: real networks of ImageNet's size with constant weights, run
// forward at batch 1 on the cpu device against the outputs that come with them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "device/device.h"
#include "model/init.h"
#include "model/onnx_tensor.h"
#include "tests/model/onnx_builder.h"
#include "tests/testing/run_graph.h"

namespace ebb {
namespace {

using graph::HostTensor;

std::string DataDir() {
  const char* given = std::getenv("EBB_TEST_DATA");
  return absl::StrCat(given != nullptr ? given : EBB_SOURCE_DIR "/../shared/data", "/onnx-light");
}

// i / n: the input that the expected outputs belong to.
HostTensor RampInput(const graph::TensorType& type) {
  std::vector<double> values(static_cast<size_t>(graph::NumElements(type.shape)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(i) / static_cast<double>(values.size());
  }
  return testing::FromDoubles(type, values);
}

absl::StatusOr<HostTensor> Forward(device::Device& device, const model::ImportedModel& model) {
  EBB_ASSIGN_OR_RETURN(const graph::Graph lowered, device.Lower(model.graph));
  EBB_ASSIGN_OR_RETURN(auto runner, testing::GraphRunner::Make(device, lowered));
  for (const auto& [name, tensor] : model.weights) EBB_RETURN_IF_ERROR(runner->Set(name, tensor));
  for (const graph::Value& value : lowered.values) {
    if (value.role != graph::Role::kInput) continue;
    EBB_RETURN_IF_ERROR(runner->Set(value.name, RampInput(value.type)));
  }
  EBB_RETURN_IF_ERROR(runner->Run());
  return runner->Get(lowered.outputs[0]);
}

absl::StatusOr<model::ImportedModel> Import(const std::string& path) {
  model::ImportOptions options;
  options.batch_norm = model::BatchNormMode::kFrozen;
  options.dropout = 0;
  options.untie_uniform = true;
  return model::ImportOnnx(testing::ReadBinary(path), options);
}

class LightModel : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    stem_ = absl::StrCat(DataDir(), "/light_", GetParam());
    if (!std::filesystem::exists(stem_ + ".onnx")) {
      GTEST_SKIP() << stem_ << ".onnx is absent: set EBB_TEST_DATA to the folder of onnx-light";
    }
  }
  std::string stem_;
};

TEST_P(LightModel, ForwardMatchesTheExpectedOutput) {
  const auto imported = Import(stem_ + ".onnx");
  ASSERT_TRUE(imported.ok()) << imported.status();
  model::onnx::TensorProto proto;
  ASSERT_TRUE(proto.ParseFromString(testing::ReadBinary(stem_ + "_output_0.pb")));
  const auto want = model::ReadTensor(proto, "");
  ASSERT_TRUE(want.ok()) << want.status();
  const auto device = device::OpenDevice("cpu", {});
  ASSERT_TRUE(device.ok()) << device.status();
  const auto got = Forward(**device, *imported);
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_EQ(got->type, want->type);
  const std::vector<double> a = testing::ToDoubles(*got), b = testing::ToDoubles(*want);
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], 1e-7 + 1e-3 * std::fabs(b[i])) << "element " << i;
  }
}

class SmallLightModel : public LightModel {};

TEST_P(SmallLightModel, DrawnWeightsGiveTheSameOnCpuAsOnTheReference) {
  auto imported = Import(stem_ + ".onnx");
  ASSERT_TRUE(imported.ok()) << imported.status();
  const absl::Status drawn =
      model::Reinitialize(imported->graph, {{"*", "kaiming_normal"}}, 7, &imported->weights);
  ASSERT_TRUE(drawn.ok()) << drawn;
  std::vector<double> results[2];
  for (int i = 0; i < 2; ++i) {
    const auto device = device::OpenDevice(i == 0 ? "ref" : "cpu", {});
    ASSERT_TRUE(device.ok()) << device.status();
    const auto got = Forward(**device, *imported);
    ASSERT_TRUE(got.ok()) << got.status();
    results[i] = testing::ToDoubles(*got);
  }
  double error = 0, norm = 0, sum = 0;
  for (size_t i = 0; i < results[0].size(); ++i) {
    error += std::pow(results[0][i] - results[1][i], 2);
    norm += std::pow(results[0][i], 2);
    sum += results[0][i];
  }
  const double mean = sum / static_cast<double>(results[0].size());
  EXPECT_GT(norm, 1.01 * mean * sum) << "the outputs are all the same";
  EXPECT_LT(std::sqrt(error / norm), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(All, SmallLightModel, ::testing::Values("shufflenet", "squeezenet"),
                         [](const auto& info) { return std::string(info.param); });

INSTANTIATE_TEST_SUITE_P(All, LightModel,
                         ::testing::Values("bvlc_alexnet", "densenet121", "inception_v1",
                                           "inception_v2", "resnet50", "shufflenet", "squeezenet",
                                           "vgg19", "zfnet512"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ebb
