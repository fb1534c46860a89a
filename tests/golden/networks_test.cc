// Known networks against PyTorch in float64 (fixtures made by make_networks.py), from both of
// PyTorch's exporters: the gradients of every parameter, twenty steps, and evaluation after them;
// and any two of them trained together.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "graph/training.h"
#include "tests/golden/trainer.h"
#include "tests/testing/jobs.h"
#include "tests/testing/test_device.h"

namespace ebb {
namespace {

using golden::Arrays;
using golden::OptimizerOf;
using golden::Trainer;
using testing::Placement;
using testing::ToDoubles;

constexpr int kSteps = 20;
constexpr const char* kNetworks[] = {"lenet5",      "resnet18", "vgg11_bn", "mobilenet_v2",
                                     "densenet121", "bert",     "gpt2",     "vit",
                                     "lstm_lm",     "gru",      "dlrm"};
constexpr const char* kExporters[] = {"torchscript", "dynamo"};

class Network : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  void SetUp() override {
    arrays_ = golden::ReadArrays(absl::StrCat(std::get<0>(GetParam()), ".npz"));
    onnx_ = absl::StrCat(std::get<0>(GetParam()), ".", std::get<1>(GetParam()), ".onnx");
  }

  void GradientsAreExact(const std::string& device_name) const {
    const auto device = testing::OpenOnOneThread(device_name);
    ASSERT_TRUE(device.ok()) << device.status();
    golden::ExpectGradients(**device, onnx_, arrays_,
                            {.loss = 1e-5, .gradient = 1e-4, .floor = 1e-6});
  }

  std::string onnx_;
  Arrays arrays_;
};

TEST_P(Network, GradientsAreAsExactAsPyTorchsOnTheCpu) {
  GradientsAreExact(testing::TestDevice("cpu"));
}
TEST_P(Network, GradientsAreAsExactAsPyTorchsOnTheReference) { GradientsAreExact("ref"); }

TEST_P(Network, TwentyStepsAndEvaluationFollowPyTorchs) {
  const auto device = testing::OpenOnOneThread(testing::TestDevice("cpu"));
  ASSERT_TRUE(device.ok()) << device.status();
  for (const std::string run : {"sgd", "adamw"}) {
    SCOPED_TRACE(run);
    const std::vector<double> options = ToDoubles(arrays_.at(run + "/options"));
    const auto trainer =
        Trainer::Make(**device, onnx_, arrays_, OptimizerOf(run, options), Placement::kSeparate);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    const std::vector<double> losses = ToDoubles(arrays_.at(run + "/loss"));
    ASSERT_EQ(losses.size(), static_cast<size_t>(kSteps));
    for (int step = 0; step < kSteps; ++step) {
      const absl::StatusOr<double> loss = (*trainer)->Step(step, options[0]);
      ASSERT_TRUE(loss.ok()) << loss.status();
      const double expected = losses[static_cast<size_t>(step)];
      EXPECT_NEAR(*loss, expected, 1e-3 * expected) << "step " << step;
    }
    const absl::StatusOr<double> eval = (*trainer)->Evaluate(4);
    ASSERT_TRUE(eval.ok()) << eval.status();
    const double expected = ToDoubles(arrays_.at(run + "/eval_loss"))[0];
    EXPECT_NEAR(*eval, expected, 1e-3 * expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Exports, Network,
                         ::testing::Combine(::testing::ValuesIn(kNetworks),
                                            ::testing::ValuesIn(kExporters)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param), "_",
                                               std::get<1>(info.param));
                         });

INSTANTIATE_TEST_SUITE_P(TorchScript, Network,
                         ::testing::Combine(::testing::Values("dlrm_bags"),
                                            ::testing::Values("torchscript")),
                         [](const auto& info) { return std::get<0>(info.param); });

// ---- Co-training

// A job on the rows of a fixture, from the export `exporter`.
runtime::JobSpec JobOf(const std::string& network, const std::string& exporter) {
  const Arrays arrays = golden::ReadArrays(network + ".npz");
  auto model = golden::Import(absl::StrCat(network, ".", exporter, ".onnx"), arrays);
  EXPECT_TRUE(model.ok()) << model.status();
  std::map<std::string, graph::HostTensor> fields;
  for (const auto& [name, tensor] : arrays) {
    if (name != "label" && !model->graph.Find(name).valid()) continue;
    graph::HostTensor rows = tensor;  // batches become rows
    rows.type.shape.erase(rows.type.shape.begin());
    rows.type.shape[0] *= tensor.type.shape[0];
    fields[name] = std::move(rows);
  }
  auto data = data::DataSet::Create(std::move(fields));
  EXPECT_TRUE(data.ok()) << data.status();
  const std::vector<double> options = ToDoubles(arrays.at("adamw/options"));
  runtime::JobSpec spec;
  spec.name = absl::StrCat(network, ".", exporter);
  spec.model.graph = std::make_shared<graph::Graph>(std::move(model->graph));
  spec.model.weights = std::make_shared<graph::TensorMap>(std::move(model->weights));
  spec.train.data = *std::move(data);
  spec.batch_size = arrays.at("label").type.shape[1];
  spec.loss = golden::LossOf(arrays);
  spec.metrics = {{graph::MetricKind::kLoss}};
  spec.optimizer = OptimizerOf("adamw", options);
  spec.schedule.base_lr = options[0];
  spec.stop.steps = 12;
  spec.seed_data = 3;
  return spec;
}

std::string Solo(const runtime::JobSpec& spec) {
  const auto engine = testing::MakeEngine({.memory = MiB(256)});
  const auto job = engine->Submit(spec);
  EXPECT_TRUE(job.ok()) << job.status();
  if (!job.ok()) return "";
  EXPECT_EQ(testing::WaitUntilFinal(*engine, *job).state, runtime::JobState::kSucceeded);
  return testing::Fingerprint(*engine, *job);
}

TEST(NetworksTogether, RandomPairsGiveTheBitsOfSoloRuns) {
  constexpr uint64_t kSeed = 11;
  std::mt19937_64 random(kSeed);
  // Every network once as the first of a pair, beside one that is drawn.
  std::map<std::string, std::string> solo;
  for (const char* first : kNetworks) {
    const std::string second = kNetworks[random() % std::size(kNetworks)];
    SCOPED_TRACE(absl::StrCat(first, " beside ", second, ", seed ", kSeed));
    std::vector<runtime::JobSpec> specs;
    for (const std::string& network : {std::string(first), second}) {
      specs.push_back(JobOf(network, kExporters[random() % std::size(kExporters)]));
      std::string& fingerprint = solo[specs.back().name];
      if (fingerprint.empty()) fingerprint = Solo(specs.back());
    }
    const auto engine = testing::MakeCheckedEngine({.memory = MiB(96)});
    std::vector<JobId> jobs;
    for (const runtime::JobSpec& spec : specs) {
      const auto job = engine->Submit(spec);
      ASSERT_TRUE(job.ok()) << job.status();
      jobs.push_back(*job);
    }
    for (size_t i = 0; i < jobs.size(); ++i) {
      EXPECT_EQ(testing::WaitUntilFinal(*engine, jobs[i]).state, runtime::JobState::kSucceeded);
      EXPECT_EQ(testing::Fingerprint(*engine, jobs[i]), solo.at(specs[i].name)) << specs[i].name;
    }
  }
}

}  // namespace
}  // namespace ebb
