#include "tests/golden/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "data/npy.h"
#include "tests/testing/test_device.h"

namespace ebb::golden {

using graph::DType;
using graph::Graph;
using graph::HostTensor;
using graph::Role;
using graph::Value;
using testing::GraphRunner;
using testing::ToDoubles;

namespace {

std::string Fixtures() { return testing::SourcePath("tests/golden/fixtures"); }

HostTensor BatchOf(const HostTensor& all, DType dtype, int batch) {
  const int64_t batches = all.type.shape[0];
  const std::vector<double> values = ToDoubles(all);
  const auto size = static_cast<int64_t>(values.size()) / batches;
  const auto begin = values.begin() + batch % batches * size;
  const graph::Shape shape(all.type.shape.begin() + 1, all.type.shape.end());
  return testing::FromDoubles({dtype, shape}, std::vector<double>(begin, begin + size));
}

}  // namespace

std::string ReadFixture(const std::string& name) {
  std::ifstream file(absl::StrCat(Fixtures(), "/", name), std::ios::binary);
  EBB_CHECK(file.good());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Arrays ReadArrays(const std::string& npz) {
  auto arrays = data::ParseNpz(ReadFixture(npz), GiB(1));
  EBB_CHECK(arrays.ok());
  return *std::move(arrays);
}

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

graph::LossSpec LossOf(const Arrays& arrays) {
  graph::LossSpec loss;
  if (graph::IsFloat(arrays.at("label").type.dtype)) loss.kind = graph::LossKind::kBceWithLogits;
  return loss;
}

absl::StatusOr<model::ImportedModel> Import(const std::string& onnx, const Arrays& arrays) {
  model::ImportOptions options;
  options.batch_size = arrays.at("label").type.shape[1];
  options.external_data_dir = Fixtures();
  return model::ImportOnnx(ReadFixture(onnx), options);
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Make(device::Device& device,
                                                       const std::string& onnx,
                                                       const Arrays& arrays,
                                                       const graph::OptimizerSpec& optimizer,
                                                       testing::Placement placement,
                                                       graph::Precision precision) {
  std::unique_ptr<Trainer> trainer(new Trainer(device, arrays));
  EBB_RETURN_IF_ERROR(trainer->Build(onnx, optimizer, placement, precision));
  return trainer;
}

absl::Status Trainer::Build(const std::string& onnx, const graph::OptimizerSpec& optimizer,
                            testing::Placement placement, graph::Precision precision) {
  EBB_ASSIGN_OR_RETURN(model_, Import(onnx, arrays_));
  if (precision == graph::Precision::kBf16) {
    EBB_ASSIGN_OR_RETURN(model_.graph, graph::ToMixedPrecision(model_.graph));
  }
  options_.optimizer = optimizer;
  options_.loss = LossOf(arrays_);
  options_.metrics = {{graph::MetricKind::kLoss, 1}};
  EBB_ASSIGN_OR_RETURN(Graph training, graph::BuildTrainingGraph(model_.graph, options_));
  for (const Value& value : training.values) {
    if (value.slot_of.valid()) slots_[training.value(value.slot_of).name] = value.name;
  }
  EBB_ASSIGN_OR_RETURN(graph_, device_.Lower(std::move(training)));
  EBB_ASSIGN_OR_RETURN(runner_, GraphRunner::Make(device_, graph_, placement));
  for (const auto& [name, tensor] : model_.weights) EBB_RETURN_IF_ERROR(runner_->Set(name, tensor));
  return absl::OkStatus();
}

absl::Status Trainer::Feed(const Graph& graph, GraphRunner& runner, int batch) const {
  for (const Value& value : graph.values) {
    if (value.role != Role::kInput) continue;
    if (value.name == "ebb.valid") {
      const int64_t rows = arrays_.at("label").type.shape[1];
      EBB_RETURN_IF_ERROR(
          runner.Set(value.name, HostTensor::Of<int64_t>(DType::kI64, {1}, {rows})));
      continue;
    }
    const auto it = arrays_.find(value.name);
    if (it == arrays_.end()) {
      return absl::NotFoundError(absl::StrCat("the fixture has no input '", value.name, "'"));
    }
    EBB_RETURN_IF_ERROR(runner.Set(value.name, BatchOf(it->second, value.type.dtype, batch)));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> Trainer::Step(int step, double learning_rate) {
  EBB_RETURN_IF_ERROR(Feed(graph_, *runner_, step % 4));
  EBB_RETURN_IF_ERROR(runner_->Set(
      "ebb.hyper", HostTensor::Of<double>(DType::kF64, {4}, {learning_rate, step + 1.0, 0, 0})));
  EBB_RETURN_IF_ERROR(runner_->Run());
  EBB_ASSIGN_OR_RETURN(const HostTensor loss, runner_->Get("metric/loss"));
  return ToDoubles(loss).at(0);
}

absl::StatusOr<double> Trainer::Evaluate(int batch) {
  EBB_ASSIGN_OR_RETURN(Graph eval, graph::BuildEvalGraph(model_.graph, options_));
  EBB_ASSIGN_OR_RETURN(const Graph lowered, device_.Lower(std::move(eval)));
  EBB_ASSIGN_OR_RETURN(const auto runner, GraphRunner::Make(device_, lowered));
  for (const Value& value : lowered.values) {
    if (value.role != Role::kParam && value.role != Role::kBuffer) continue;
    EBB_ASSIGN_OR_RETURN(const HostTensor tensor, runner_->Get(value.name));
    EBB_RETURN_IF_ERROR(runner->Set(value.name, tensor));
  }
  EBB_RETURN_IF_ERROR(Feed(lowered, *runner, batch));
  EBB_RETURN_IF_ERROR(runner->Run());
  EBB_ASSIGN_OR_RETURN(const HostTensor sum, runner->Get("metric/loss.sum"));
  EBB_ASSIGN_OR_RETURN(const HostTensor count, runner->Get("metric/loss.count"));
  return ToDoubles(sum).at(0) / ToDoubles(count).at(0);
}

std::vector<double> Trainer::Get(const std::string& name) const {
  const absl::StatusOr<HostTensor> tensor = runner_->Get(name);
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  return tensor.ok() ? ToDoubles(*tensor) : std::vector<double>();
}

std::vector<double> Trainer::GetSlot(const std::string& parameter) const {
  const auto slot = slots_.find(parameter);
  EXPECT_TRUE(slot != slots_.end()) << parameter << " has no slot: it is not trained";
  return slot == slots_.end() ? std::vector<double>() : Get(slot->second);
}

}  // namespace ebb::golden
