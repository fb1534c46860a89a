// Trains an ONNX file for a few steps of plain SGD on given batches and prints what came out, as
// JSON:
//   ebb_train_onnx MODEL.onnx BATCHES.npz LEARNING_RATE [DEVICE]
// BATCHES.npz has an array [steps, N, ...] for every input of the model, and "label" or (squared
// error) "target"; without either, the model's only output is the loss. One more batch than steps:
// the last is evaluated.
//   {"losses": [...], "eval_loss": ..., "nodes": ..., "warnings": [...]}
//   {"stage": "import"|"graph"|"device"|"run", "error": "..."}
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "data/npy.h"
#include "device/device.h"
#include "graph/training.h"
#include "model/import.h"
#include "tests/testing/run_graph.h"

namespace ebb {
namespace {

using graph::DType;
using graph::Graph;
using graph::HostTensor;
using graph::Role;
using graph::Value;
using testing::GraphRunner;
using Arrays = std::map<std::string, HostTensor>;

absl::StatusOr<std::string> Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.good()) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// Batch `step` of a stacked array, in the type that the graph's input has.
HostTensor Batch(const HostTensor& all, const graph::TensorType& type, int64_t step) {
  const size_t bytes = all.data.size() / static_cast<size_t>(all.type.shape[0]);
  HostTensor batch{{all.type.dtype, {all.type.shape.begin() + 1, all.type.shape.end()}}, {}};
  const auto begin = all.data.begin() + static_cast<std::ptrdiff_t>(bytes) * step;
  batch.data.assign(begin, begin + static_cast<std::ptrdiff_t>(bytes));
  if (batch.type.dtype == type.dtype) return batch;
  return testing::FromDoubles({type.dtype, batch.type.shape}, testing::ToDoubles(batch));
}

class Run {
 public:
  Run(std::string model, Arrays arrays, double rate)
      : path_(std::move(model)), arrays_(std::move(arrays)), rate_(rate) {}

  // The stage at which a failure came.
  const std::string& stage() const { return stage_; }

  absl::StatusOr<nlohmann::json> Execute(const std::string& device_name) {
    stage_ = "import";
    EBB_ASSIGN_OR_RETURN(const std::string bytes, Read(path_));
    model::ImportOptions import;
    import.batch_size = arrays_.begin()->second.type.shape.at(1);
    import.dropout = 0;
    import.external_data_dir = FolderOf(path_);
    EBB_ASSIGN_OR_RETURN(const model::ImportedModel model, model::ImportOnnx(bytes, import));

    stage_ = "graph";
    graph::TrainingOptions options;
    options.metrics = {{graph::MetricKind::kLoss, 1}};
    options.loss.kind = arrays_.contains("label")    ? graph::LossKind::kCrossEntropy
                        : arrays_.contains("target") ? graph::LossKind::kMse
                                                     : graph::LossKind::kGraphOutput;
    options.loss.target = arrays_.contains("target") ? "target" : "label";
    if (!model.graph.outputs.empty()) {  // a model of several: the first
      options.loss.output = model.graph.value(model.graph.outputs[0]).name;
    }
    EBB_ASSIGN_OR_RETURN(const Graph training, graph::BuildTrainingGraph(model.graph, options));
    EBB_ASSIGN_OR_RETURN(const Graph eval, graph::BuildEvalGraph(model.graph, options));

    stage_ = "device";
    EBB_ASSIGN_OR_RETURN(const auto device, device::OpenDevice(device_name, {}));
    nlohmann::json result = {{"nodes", model.graph.nodes.size()}, {"warnings", model.warnings}};
    result["frozen"] = graph::ParamsWithoutGradient(training);
    graph::TensorMap state = model.weights;
    EBB_ASSIGN_OR_RETURN(result["losses"], Train(*device, training, &state));
    EBB_ASSIGN_OR_RETURN(result["eval_loss"], Evaluate(*device, eval, state));
    return result;
  }

 private:
  absl::Status Feed(const Graph& graph, GraphRunner& runner, int64_t step) const {
    for (const Value& value : graph.values) {
      if (value.role == Role::kInput && value.name == "ebb.valid") {
        const int64_t rows = arrays_.begin()->second.type.shape[1];
        EBB_RETURN_IF_ERROR(
            runner.Set(value.name, HostTensor::Of<int64_t>(DType::kI64, {1}, {rows})));
      } else if (value.role == Role::kInput) {
        const auto it = arrays_.find(value.name);
        if (it == arrays_.end()) {
          return absl::NotFoundError(absl::StrCat("the batches have no '", value.name, "'"));
        }
        EBB_RETURN_IF_ERROR(runner.Set(value.name, Batch(it->second, value.type, step)));
      } else if (value.name == "ebb.rng") {
        EBB_RETURN_IF_ERROR(
            runner.Set(value.name, HostTensor::Of<int64_t>(DType::kI64, {2}, {1, step})));
      } else if (value.name == "ebb.hyper") {
        EBB_RETURN_IF_ERROR(runner.Set(
            value.name, HostTensor::Of<double>(DType::kF64, {4},
                                               {rate_, static_cast<double>(step) + 1, 0, 0})));
      }
    }
    return absl::OkStatus();
  }

  static absl::Status SetState(const Graph& graph, GraphRunner& runner,
                               const graph::TensorMap& state) {
    for (const Value& value : graph.values) {
      if (value.role != Role::kParam && value.role != Role::kBuffer) continue;
      EBB_RETURN_IF_ERROR(runner.Set(value.name, state.at(value.name)));
    }
    return absl::OkStatus();
  }

  // Losses of all batches but the last; `state` becomes what training left.
  absl::StatusOr<std::vector<double>> Train(device::Device& device, const Graph& training,
                                            graph::TensorMap* state) {
    EBB_ASSIGN_OR_RETURN(const Graph lowered, device.Lower(training));
    EBB_ASSIGN_OR_RETURN(const auto runner, GraphRunner::Make(device, lowered));
    EBB_RETURN_IF_ERROR(SetState(lowered, *runner, *state));
    stage_ = "run";
    std::vector<double> losses;
    const int64_t steps = arrays_.begin()->second.type.shape[0] - 1;
    for (int64_t step = 0; step < steps; ++step) {
      EBB_RETURN_IF_ERROR(Feed(lowered, *runner, step));
      EBB_RETURN_IF_ERROR(runner->Run());
      EBB_ASSIGN_OR_RETURN(const HostTensor loss, runner->Get("metric/loss"));
      losses.push_back(testing::ToDoubles(loss).at(0));
    }
    for (auto& [name, tensor] : *state) {
      if (!lowered.Find(name).valid()) continue;
      EBB_ASSIGN_OR_RETURN(tensor, runner->Get(name));
    }
    return losses;
  }

  absl::StatusOr<double> Evaluate(device::Device& device, const Graph& eval,
                                  const graph::TensorMap& state) const {
    EBB_ASSIGN_OR_RETURN(const Graph lowered, device.Lower(eval));
    EBB_ASSIGN_OR_RETURN(const auto runner, GraphRunner::Make(device, lowered));
    EBB_RETURN_IF_ERROR(SetState(lowered, *runner, state));
    EBB_RETURN_IF_ERROR(Feed(lowered, *runner, arrays_.begin()->second.type.shape[0] - 1));
    EBB_RETURN_IF_ERROR(runner->Run());
    if (const auto loss = runner->Get("metric/loss"); loss.ok()) {
      return testing::ToDoubles(*loss).at(0);
    }
    EBB_ASSIGN_OR_RETURN(const HostTensor sum, runner->Get("metric/loss.sum"));
    EBB_ASSIGN_OR_RETURN(const HostTensor count, runner->Get("metric/loss.count"));
    return testing::ToDoubles(sum).at(0) / testing::ToDoubles(count).at(0);
  }

  const std::string path_;
  const Arrays arrays_;
  const double rate_;
  std::string stage_;
};

int Main(int argc, char** argv) {
  double rate = 0;
  if (argc < 4 || argc > 5 || !absl::SimpleAtod(argv[3], &rate)) {
    std::cerr << "usage: ebb_train_onnx MODEL.onnx BATCHES.npz LEARNING_RATE [DEVICE]\n";
    return 2;
  }
  const absl::StatusOr<std::string> npz = Read(argv[2]);
  auto arrays = npz.ok() ? data::ParseNpz(*npz, GiB(4)) : absl::StatusOr<Arrays>(npz.status());
  if (!arrays.ok() || arrays->empty()) {
    std::cerr << "ebb_train_onnx: " << argv[2] << ": " << arrays.status() << "\n";
    return 2;
  }
  Run run(argv[1], *std::move(arrays), rate);
  const auto result = run.Execute(argc > 4 ? argv[4] : "cpu");
  const nlohmann::json printed =
      result.ok() ? *result
                  : nlohmann::json{{"stage", run.stage()},
                                   {"error", std::string(result.status().message())}};
  std::cout << printed.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  return result.ok() ? 0 : 1;
}

}  // namespace
}  // namespace ebb

int main(int argc, char** argv) { return ebb::Main(argc, argv); }
