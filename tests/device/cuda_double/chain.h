// A small graph in device memory, for tests of launches: y1 = Neg(x), y2 = Exp(y1), ...
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "graph/graph.h"

namespace ebb::testing {

class Chain {
 public:
  static constexpr size_t kFloats = 100;

  // `text`: a graph of f32[100] values, the first of which is "x". Its values are copied from
  // `x` when it is put on a stream.
  Chain(device::Device* device, const std::string& text);
  ~Chain();  // launches must be complete
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  // Another place in memory: the launches of each have pointers of their own.
  int AddPlace();
  void Set(const std::string& name, const void* data, size_t bytes, int place = 0);
  void Launch(device::StreamId stream, int place = 0);  // all nodes
  std::vector<float> Get(const std::string& name, int place = 0);
  const graph::Graph& graph() const { return graph_; }

 private:
  struct Place {
    char* base = nullptr;
    device::Bindings bindings;
  };
  void Move(void* to, const void* from, size_t bytes);

  device::Device* const device_;
  graph::Graph graph_;
  std::unique_ptr<device::Program> program_;
  Bytes bytes_;
  std::vector<std::unique_ptr<Place>> places_;
};

// Waits for all that is on the stream and says what its event says.
absl::Status Finish(device::Device& device, device::StreamId stream);

}  // namespace ebb::testing
