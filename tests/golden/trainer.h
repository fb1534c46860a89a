// A network of the fixtures being trained on a device through the path that a job takes: import,
// training graph, lowering, kernels. One thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "device/device.h"
#include "graph/mixed_precision.h"
#include "graph/training.h"
#include "model/import.h"
#include "tests/testing/run_graph.h"

namespace ebb::golden {

using Arrays = std::map<std::string, graph::HostTensor>;

// A file of tests/golden/fixtures. It must be there.
std::string ReadFixture(const std::string& name);
Arrays ReadArrays(const std::string& npz);

// The arrays whose names begin with `prefix`, by the rest of their names: in the fixture's order.
std::vector<std::pair<std::string, std::vector<double>>> Under(const Arrays& arrays,
                                                               const std::string& prefix);
double Norm(const std::vector<double>& values);
double Distance(std::vector<double> a, const std::vector<double>& b);

// Run "sgd", "adam" or "adamw" with the options that a fixture has of it.
graph::OptimizerSpec OptimizerOf(const std::string& run, const std::vector<double>& options);
// Cross entropy, or binary cross entropy where the labels are floats.
graph::LossSpec LossOf(const Arrays& arrays);
// With weights beside the file, and the batch that the fixture's labels have.
absl::StatusOr<model::ImportedModel> Import(const std::string& onnx, const Arrays& arrays);

class Trainer {
 public:
  // `device` and `arrays` must outlive the trainer.
  static absl::StatusOr<std::unique_ptr<Trainer>> Make(device::Device& device,
                                                       const std::string& onnx,
                                                       const Arrays& arrays,
                                                       const graph::OptimizerSpec& optimizer,
                                                       testing::Placement placement,
                                                       graph::Precision precision = {});

  // One step on batch `step` % 4 (step from 0); returns the loss.
  absl::StatusOr<double> Step(int step, double learning_rate);
  // The loss of a batch by evaluation semantics, with the state that training has reached.
  absl::StatusOr<double> Evaluate(int batch);

  std::vector<double> Get(const std::string& name) const;
  // The optimizer's slot of a parameter that has one slot.
  std::vector<double> GetSlot(const std::string& parameter) const;

 private:
  Trainer(device::Device& device, const Arrays& arrays) : device_(device), arrays_(arrays) {}
  absl::Status Build(const std::string& onnx, const graph::OptimizerSpec& optimizer,
                     testing::Placement placement, graph::Precision precision);
  absl::Status Feed(const graph::Graph& graph, testing::GraphRunner& runner, int batch) const;

  device::Device& device_;
  const Arrays& arrays_;
  model::ImportedModel model_;
  graph::TrainingOptions options_;
  std::map<std::string, std::string> slots_;
  graph::Graph graph_;
  std::unique_ptr<testing::GraphRunner> runner_;
};

// How close the first step must come to PyTorch's: its loss, relatively; the gradient of a
// parameter, by relative L2, to `gradient` or three times the error of PyTorch's own float32,
// whichever is more. A gradient that is zero in theory (a bias before batch normalisation) is noise
// in practice: to the bound is added `floor` times the norm of the largest one.
struct Exactness {
  double loss, gradient, floor;
};
// Checks of GoogleTest.
void ExpectGradients(device::Device& device, const std::string& onnx, const Arrays& arrays,
                     Exactness exactness);

}  // namespace ebb::golden
