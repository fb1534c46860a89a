#include "bench/soak_devices.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "base/status.h"

namespace ebb::bench {

using device::Device;
using device::EventId;
using device::EventState;
using device::LaunchArgs;
using device::Program;
using device::StreamId;

// --- failures ------------------------------------------------------------------------------------

bool FaultDevice::Fault::fired() const {
  MutexLock lock(&mu_);
  return fired_;
}

std::shared_ptr<const FaultDevice::Fault> FaultDevice::FailLaunch(std::string tag, int64_t launch) {
  auto fault = std::make_shared<Fault>();
  {
    MutexLock lock(&fault->mu_);
    fault->launches_left_ = launch;
  }
  MutexLock lock(&mu_);
  tags_[std::move(tag)] = fault;
  return fault;
}

absl::StatusOr<std::unique_ptr<Program>> FaultDevice::Compile(const graph::Graph& graph) const {
  EBB_ASSIGN_OR_RETURN(std::unique_ptr<Program> program, inner().Compile(graph));
  MutexLock lock(&mu_);
  std::shared_ptr<Fault>& fault = faults_[program.get()];
  fault = nullptr;
  for (const auto& [tag, of_tag] : tags_) {
    const auto tagged = [&tag = tag](const graph::Node& node) {
      return absl::StartsWith(node.name, tag);
    };
    if (std::any_of(graph.nodes.begin(), graph.nodes.end(), tagged)) fault = of_tag;
  }
  return program;
}

void FaultDevice::Launch(StreamId stream, const LaunchArgs& args) {
  {
    MutexLock lock(&mu_);
    if (const std::shared_ptr<Fault>& fault = faults_[args.program]; fault != nullptr) {
      MutexLock fault_lock(&fault->mu_);
      if (fault->launches_left_-- == 0) {
        fault->fired_ = true;
        failed_streams_.insert(stream);
      }
    }
  }
  inner().Launch(stream, args);
}

EventId FaultDevice::Record(StreamId stream) {
  const EventId event = inner().Record(stream);
  MutexLock lock(&mu_);
  if (failed_streams_.erase(stream) > 0) failed_events_.insert(event);
  return event;
}

EventState FaultDevice::Query(EventId event) const {
  EventState state = inner().Query(event);
  MutexLock lock(&mu_);
  if (state.complete && failed_events_.contains(event)) {
    state.status = absl::InternalError("a launch was made to fail");
  }
  return state;
}

void FaultDevice::Release(EventId event) {
  inner().Release(event);
  MutexLock lock(&mu_);
  failed_events_.erase(event);
}

// --- counts --------------------------------------------------------------------------------------

DeviceCounts::Held DeviceCounts::held() const {
  MutexLock lock(&mu_);
  return held_;
}

void DeviceCounts::Add(const Held& change) {
  MutexLock lock(&mu_);
  held_.streams += change.streams;
  held_.events += change.events;
  held_.reserved += change.reserved;
  held_.committed += change.committed;
}

namespace {

class CountingDevice final : public device::ForwardingDevice, private memory::GranuleSource {
 public:
  CountingDevice(std::unique_ptr<Device> device, std::shared_ptr<DeviceCounts> counts)
      : ForwardingDevice(std::move(device)), counts_(std::move(counts)) {}

  memory::GranuleSource& granules() override { return *this; }
  StreamId CreateStream() override {
    counts_->Add({.streams = 1});
    return inner().CreateStream();
  }
  void DestroyStream(StreamId stream) override {
    inner().DestroyStream(stream);
    counts_->Add({.streams = -1});
  }
  EventId Record(StreamId stream) override {
    counts_->Add({.events = 1});
    return inner().Record(stream);
  }
  void Release(EventId event) override {
    inner().Release(event);
    counts_->Add({.events = -1});
  }

 private:
  Bytes granule() const override { return inner().granules().granule(); }
  absl::StatusOr<char*> Reserve(Bytes bytes) override {
    EBB_ASSIGN_OR_RETURN(char* const base, inner().granules().Reserve(bytes));
    counts_->Add({.reserved = bytes});
    return base;
  }
  void Unreserve(char* base, Bytes bytes) override {
    inner().granules().Unreserve(base, bytes);
    counts_->Add({.reserved = -bytes});
  }
  absl::Status Commit(char* base, Bytes offset, Bytes bytes) override {
    EBB_RETURN_IF_ERROR(inner().granules().Commit(base, offset, bytes));
    counts_->Add({.committed = bytes});
    return absl::OkStatus();
  }
  void Decommit(char* base, Bytes offset, Bytes bytes) override {
    inner().granules().Decommit(base, offset, bytes);
    counts_->Add({.committed = -bytes});
  }

  const std::shared_ptr<DeviceCounts> counts_;
};

}  // namespace

std::unique_ptr<Device> CountHeld(std::unique_ptr<Device> device,
                                  std::shared_ptr<DeviceCounts> counts) {
  return std::make_unique<CountingDevice>(std::move(device), std::move(counts));
}

}  // namespace ebb::bench
