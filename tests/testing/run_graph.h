// Runs a graph on a device in tests: every value in memory of its own, or joined as liveness says,
// with guard bytes behind each and poison in what nobody has written yet. One thread.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "device/device.h"
#include "graph/graph.h"
#include "tests/testing/test_device.h"

namespace ebb::testing {

enum class Placement {
  kSeparate,  // every value in a buffer of its own
  kShared,    // views and in-place outputs share their input's buffer (graph/liveness.h)
};

class GraphRunner {
 public:
  // `device` and `graph` must outlive the runner. The graph is compiled as it is: Lower() it first
  // to run what the daemon would.
  static absl::StatusOr<std::unique_ptr<GraphRunner>> Make(
      device::Device& device, const graph::Graph& graph,
      Placement placement = Placement::kSeparate);
  ~GraphRunner();
  GraphRunner(const GraphRunner&) = delete;
  GraphRunner& operator=(const GraphRunner&) = delete;

  // Gives an input or resident value its contents. Optimizer slots start at zero and constants at
  // their data; everything else is poison until set. NotFound, or InvalidArgument on a wrong type.
  absl::Status Set(absl::string_view name, const graph::HostTensor& tensor);
  // Runs all nodes. A kernel's failure, or Internal when one wrote behind its output.
  absl::Status Run();
  // A value as it was after the node that made it (residents: as they are now), in plain layout.
  absl::StatusOr<graph::HostTensor> Get(absl::string_view name) const;
  graph::HostTensor Get(ValueId value) const;

 private:
  struct Allocation;
  GraphRunner(device::Device& device, const graph::Graph& graph);
  void Allocate(Placement placement);
  absl::Status LaunchAndWait(int first, int last);
  std::vector<std::byte> BytesOf(const graph::Value& value) const;
  void Capture(const graph::Node& node);
  absl::Status CheckGuards() const;

  device::Device& device_;
  const graph::Graph& graph_;
  Placement placement_ = Placement::kSeparate;
  std::unique_ptr<device::Program> program_;
  device::StreamId stream_;
  TestMemory memory_;
  std::vector<Allocation> allocations_;
  device::Bindings bindings_;
  std::vector<graph::HostTensor> captured_;  // per value; kShared only
};

// Sets `feeds`, runs once and returns every value by name.
absl::StatusOr<graph::TensorMap> RunGraph(device::Device& device, const graph::Graph& graph,
                                          const graph::TensorMap& feeds,
                                          Placement placement = Placement::kSeparate);

// Uniform in [min, max), the same for the same seed. Integer types: whole numbers in that range.
graph::HostTensor RandomTensor(graph::TensorType type, uint64_t seed, double min = -1,
                               double max = 1);
// The elements of a tensor of any type as doubles, and back.
std::vector<double> ToDoubles(const graph::HostTensor& tensor);
graph::HostTensor FromDoubles(graph::TensorType type, const std::vector<double>& values);
// |got - want| / |want|, by the root of the sums of squares; infinite where only `want` is zero.
double RelativeL2(const graph::HostTensor& got, const graph::HostTensor& want);

}  // namespace ebb::testing
