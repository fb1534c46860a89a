// Gradients and short training runs of whole networks against PyTorch in float64 (fixtures made by
// make_golden.py), on every host device, through the path that a job takes: import, training graph,
// lowering, kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "data/npy.h"
#include "device/device.h"
#include "graph/training.h"
#include "model/import.h"
#include "tests/testing/run_graph.h"

namespace ebb {
namespace {

using graph::DType;
using graph::HostTensor;
using testing::Placement;
using testing::ToDoubles;
using Arrays = std::map<std::string, HostTensor>;

constexpr int kSteps = 20;

std::string Read(const std::string& name) {
  std::ifstream file(absl::StrCat(EBB_SOURCE_DIR "/tests/golden/fixtures/", name),
                     std::ios::binary);
  EBB_CHECK(file.good());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The arrays whose names begin with `prefix`, by the rest of their names: in the fixture's order.
std::vector<std::pair<std::string, std::vector<double>>> Under(const Arrays& arrays,
                                                               const std::string& prefix) {
  std::vector<std::pair<std::string, std::vector<double>>> found;
  for (const auto& [name, tensor] : arrays) {
    if (absl::StartsWith(name, prefix)) {
      found.emplace_back(name.substr(prefix.size()), ToDoubles(tensor));
    }
  }
  return found;
}

double Norm(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value * value;
  return std::sqrt(sum);
}

double Distance(std::vector<double> a, const std::vector<double>& b) {
  EBB_CHECK(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return Norm(a);
}

graph::OptimizerSpec OptimizerOf(const std::string& run, const std::vector<double>& options) {
  graph::OptimizerSpec spec;
  spec.kind = run == "sgd"    ? graph::OptimizerKind::kSgd
              : run == "adam" ? graph::OptimizerKind::kAdam
                              : graph::OptimizerKind::kAdamW;
  spec.weight_decay = options[1];
  spec.momentum = options[2];
  spec.dampening = options[3];
  spec.nesterov = options[4] != 0;
  spec.beta1 = options[5];
  spec.beta2 = options[6];
  spec.epsilon = options[7];
  return spec;
}

// A network of the fixtures being trained on a device.
class Trainer {
 public:
  Trainer(device::Device& device, const std::string& network, const Arrays& arrays,
          const graph::OptimizerSpec& optimizer, Placement placement)
      : arrays_(arrays) {
    batch_ = arrays.at("label").type.shape[1];
    model::ImportOptions import;
    import.batch_size = batch_;
    auto imported = model::ImportOnnx(Read(network + ".onnx"), import);
    if (!Keep(imported.status())) return;
    weights_ = std::move(imported->weights);

    graph::TrainingOptions options;
    options.optimizer = optimizer;
    auto training = graph::BuildTrainingGraph(imported->graph, options);
    if (!Keep(training.status())) return;
    for (const graph::Value& value : training->values) {
      if (value.slot_of.valid()) slots_[training->value(value.slot_of).name] = value.name;
    }
    auto lowered = device.Lower(*std::move(training));
    if (!Keep(lowered.status())) return;
    graph_ = *std::move(lowered);
    auto runner = testing::GraphRunner::Make(device, graph_, placement);
    if (!Keep(runner.status())) return;
    runner_ = *std::move(runner);
    for (const auto& [name, tensor] : weights_) {
      if (!Keep(runner_->Set(name, tensor))) return;
    }
  }

  const absl::Status& status() const { return status_; }

  // One step on batch `step` % 4 (step from 0); returns the loss.
  absl::StatusOr<double> Step(int step, double learning_rate) {
    EBB_RETURN_IF_ERROR(runner_->Set("x", Batch("x", DType::kF32, step)));
    EBB_RETURN_IF_ERROR(runner_->Set("label", Batch("label", DType::kI64, step)));
    EBB_RETURN_IF_ERROR(runner_->Set(
        "ebb.hyper", HostTensor::Of<double>(DType::kF64, {4}, {learning_rate, step + 1.0, 0, 0})));
    EBB_RETURN_IF_ERROR(runner_->Run());
    EBB_ASSIGN_OR_RETURN(const HostTensor loss, runner_->Get("metric/loss"));
    return ToDoubles(loss).at(0);
  }

  std::vector<double> Get(const std::string& name) const {
    const absl::StatusOr<HostTensor> tensor = runner_->Get(name);
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    return tensor.ok() ? ToDoubles(*tensor) : std::vector<double>();
  }
  // The optimizer's slot of a parameter that has one slot.
  std::vector<double> GetSlot(const std::string& parameter) const {
    return Get(slots_.at(parameter));
  }

 private:
  bool Keep(const absl::Status& status) {
    status_ = status;
    return status.ok();
  }

  HostTensor Batch(const std::string& field, DType dtype, int step) const {
    const HostTensor& all = arrays_.at(field);
    const int64_t batches = all.type.shape[0];
    const std::vector<double> values = ToDoubles(all);
    const auto size = static_cast<int64_t>(values.size()) / batches;
    const auto begin = values.begin() + step % batches * size;
    const graph::Shape shape(all.type.shape.begin() + 1, all.type.shape.end());
    return testing::FromDoubles({dtype, shape}, std::vector<double>(begin, begin + size));
  }

  const Arrays& arrays_;
  int64_t batch_ = 0;
  absl::Status status_;
  graph::TensorMap weights_;
  std::map<std::string, std::string> slots_;
  graph::Graph graph_;
  std::unique_ptr<testing::GraphRunner> runner_;
};

class Golden : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  void SetUp() override {
    auto device = device::OpenDevice(std::get<0>(GetParam()), {.threads_per_stream = 1});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    network_ = std::get<1>(GetParam());
    auto arrays = data::ParseNpz(Read(network_ + ".npz"), GiB(1));
    ASSERT_TRUE(arrays.ok()) << arrays.status();
    arrays_ = *std::move(arrays);
  }

  std::unique_ptr<device::Device> device_;
  std::string network_;
  Arrays arrays_;
};

// The velocity of SGD with momentum after the first step is the gradient itself.
TEST_P(Golden, GradientsAreAsExactAsPyTorchs) {
  graph::OptimizerSpec momentum;
  momentum.momentum = 0.9;
  Trainer trainer(*device_, network_, arrays_, momentum, Placement::kSeparate);
  ASSERT_TRUE(trainer.status().ok()) << trainer.status();
  const absl::StatusOr<double> loss = trainer.Step(0, 0);
  ASSERT_TRUE(loss.ok()) << loss.status();
  const double expected_loss = ToDoubles(arrays_.at("loss"))[0];
  EXPECT_NEAR(*loss, expected_loss, 1e-6 * expected_loss);

  const auto expected = Under(arrays_, "grad/");
  const std::vector<double> own_error = ToDoubles(arrays_.at("grad_error"));
  ASSERT_EQ(expected.size(), own_error.size());
  // A gradient that is zero in theory (a bias before batch normalisation) is noise in practice:
  // it is measured against the largest one.
  double largest = 0;
  for (const auto& [name, gradient] : expected) largest = std::max(largest, Norm(gradient));
  const double floor = 1e-7 * largest;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto& [name, gradient] = expected[i];
    const std::vector<double> actual = trainer.GetSlot(name);
    ASSERT_EQ(actual.size(), gradient.size()) << name;
    const double relative = std::max(1e-5, 3 * own_error[i]);
    EXPECT_LE(Distance(actual, gradient), relative * Norm(gradient) + floor)
        << name << ": |gradient| = " << Norm(gradient);
  }
}

TEST_P(Golden, TwentyStepsFollowPyTorchs) {
  for (const std::string run : {"sgd", "adam", "adamw"}) {
    SCOPED_TRACE(run);
    const std::vector<double> options = ToDoubles(arrays_.at(run + "/options"));
    Trainer trainer(*device_, network_, arrays_, OptimizerOf(run, options), Placement::kShared);
    ASSERT_TRUE(trainer.status().ok()) << trainer.status();
    const std::vector<double> losses = ToDoubles(arrays_.at(run + "/loss"));
    ASSERT_EQ(losses.size(), static_cast<size_t>(kSteps));
    for (int step = 0; step < kSteps; ++step) {
      const absl::StatusOr<double> loss = trainer.Step(step, options[0]);
      ASSERT_TRUE(loss.ok()) << loss.status();
      const double expected = losses[static_cast<size_t>(step)];
      EXPECT_NEAR(*loss, expected, (step < 10 ? 1e-5 : 1e-4) * expected) << "step " << step;
    }
    const auto expected = Under(arrays_, run + "/final/");
    const std::vector<double> own_error = ToDoubles(arrays_.at(run + "/final_error"));
    ASSERT_EQ(expected.size(), own_error.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto& [name, value] = expected[i];
      const std::vector<double> actual = trainer.Get(name);
      ASSERT_EQ(actual.size(), value.size()) << name;
      EXPECT_LE(Distance(actual, value), std::max(1e-5, 10 * own_error[i]) * Norm(value)) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Golden,
                         ::testing::Combine(::testing::Values("ref", "cpu"),
                                            ::testing::Values("mlp", "cnn", "resnet", "lenet",
                                                              "vgg", "mobilenet", "densenet")),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param), "_",
                                               std::get<1>(info.param));
                         });

}  // namespace
}  // namespace ebb
