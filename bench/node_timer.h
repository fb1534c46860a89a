// A device that tells how long every node took: it launches them one by one, with an event between
// two. For calibration runs: what it wraps computes the same, a little slower. Thread-safe.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "device/forwarding_device.h"
#include "perfmodel/work.h"

namespace ebb::bench {

// Of one compiled graph: its nodes in order.
struct NodeTimes {
  std::vector<std::string> kernels;         // by device::KernelKey
  std::vector<std::string> names;           // their place and op
  std::vector<perfmodel::Work> works;       // no FLOPs and bytes: a view
  std::vector<double> bytes;                // that the op table says it moves; 0: a view
  std::vector<std::vector<double>> micros;  // of every execution
};

class NodeTimer final : public device::ForwardingDevice {
 public:
  // `times` gets an entry for every graph compiled; complete when the device has been destroyed.
  NodeTimer(std::unique_ptr<device::Device> device,
            std::shared_ptr<std::vector<std::unique_ptr<NodeTimes>>> times)
      : ForwardingDevice(std::move(device)), times_(std::move(times)) {}

  absl::StatusOr<std::unique_ptr<device::Program>> Compile(
      const graph::Graph& graph) const override;
  void Launch(device::StreamId stream, const device::LaunchArgs& args) override;
  void DestroyStream(device::StreamId stream) override;

 private:
  struct Sample {
    device::EventId event;
    NodeTimes* times;  // null: what was before the launch
    size_t node;
  };
  void Collect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  const std::shared_ptr<std::vector<std::unique_ptr<NodeTimes>>> times_ ABSL_PT_GUARDED_BY(mu_);
  // An address may be that of an earlier program: the newest counts.
  mutable absl::flat_hash_map<const device::Program*, NodeTimes*> programs_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<device::StreamId, std::deque<Sample>> samples_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ebb::bench
