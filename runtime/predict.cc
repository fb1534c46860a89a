#include "runtime/predict.h"

#include <array>
#include <deque>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "device/device.h"

namespace ebb::runtime {
namespace {

constexpr int kWarmUp = 2;  // the host is not ahead of the device yet
constexpr int kMeasured = 3;

// One stream of a device that nobody else uses. Addresses only say on which side of the bus they
// are.
class Stopwatch {
 public:
  // `ahead`: batches cross the bus while the step before theirs runs.
  Stopwatch(device::Device* device, char* on_device, bool ahead, int max_in_flight)
      : device_(*device),
        on_device_(on_device),
        ahead_(ahead),
        max_in_flight_(static_cast<size_t>(max_in_flight)),
        stream_(device_.CreateStream()),
        ahead_stream_(device_.CreateStream()) {}
  ~Stopwatch() {
    device_.DestroyStream(stream_);
    device_.DestroyStream(ahead_stream_);
    for (const device::EventId event : in_flight_) device_.Release(event);
    if (landed_.valid()) device_.Release(landed_);
  }

  void Step(const StepProgram& step, const device::Program& program, Bytes metrics) {
    constexpr char kZero[32] = {};
    if (step.graph.Find("ebb.hyper").valid()) device_.Write(stream_, on_device_, kZero);
    if (step.graph.Find("ebb.rng").valid()) {
      device_.Write(stream_, on_device_, absl::MakeConstSpan(kZero).first(16));
    }
    if (!ahead_) {
      CopyBatch(step, stream_, on_host_);
    } else {
      if (landed_.valid()) {
        device_.Wait(stream_, landed_);
        device_.Release(landed_);
      }
      CopyBatch(step, stream_, on_device_);
      const device::EventId copied = device_.Record(stream_);
      device_.Wait(ahead_stream_, copied);
      device_.Release(copied);
      CopyBatch(step, ahead_stream_, on_host_);
      landed_ = device_.Record(ahead_stream_);
    }
    for (size_t s = 0; s < step.partition.sub_models.size(); ++s) {
      AwaitRoom();
      const partitioner::SubModel& sub = step.partition.sub_models[s];
      int first = sub.first, last = sub.last;
      if (!step.traffic.empty()) {
        const graph::Traffic& traffic = step.traffic[s];
        first = traffic.computed.first;
        last = traffic.computed.last;
        CopyState(step, traffic);
      }
      device_.Launch(stream_, {.program = &program, .first = first, .last = last});
      if (s + 1 == step.partition.sub_models.size()) {
        device_.Copy(stream_, on_host_, on_device_, metrics);
      }
      in_flight_.push_back(device_.Record(stream_));
    }
  }
  // When the newest step ended. Waits for it; but the host has enqueued all steps by then.
  Micros End() {
    device_.Synchronize(stream_);
    return device_.Query(in_flight_.back()).end;
  }

 private:
  void CopyBatch(const StepProgram& step, device::StreamId stream, const char* from) {
    for (const ValueId input : step.inputs) {
      if (!step.PlaceOf(input)) continue;
      device_.Copy(stream, on_device_, from, step.graph.value(input).type.bytes());
    }
    if (step.valid.valid() && step.PlaceOf(step.valid)) {
      device_.Copy(stream, on_device_, from, Bytes(sizeof(int64_t)));
    }
  }

  // As if none of it were hidden.
  void CopyState(const StepProgram& step, const graph::Traffic& traffic) {
    for (const auto* nodes : {&traffic.fetch_now, &traffic.fetch_ahead}) {
      for (const NodeId id : *nodes) {
        const ValueId state = step.graph.node(id).inputs[0];
        device_.Copy(stream_, on_device_, on_host_, step.graph.value(state).type.bytes());
      }
    }
    for (const auto* nodes : {&traffic.store, &traffic.store_last}) {
      for (const NodeId id : *nodes) {
        const ValueId state = step.graph.node(id).inputs[0];
        device_.Copy(stream_, on_host_, on_device_, step.graph.value(state).type.bytes());
      }
    }
  }

  void AwaitRoom() {
    while (in_flight_.size() >= max_in_flight_) {
      while (!device_.Query(in_flight_.front()).complete) {
        device_.AwaitProgress(absl::Seconds(1));
      }
      device_.Release(in_flight_.front());
      in_flight_.pop_front();
    }
  }

  device::Device& device_;
  char* const on_device_;
  char on_host_[1];  // never written: nothing is moved
  const bool ahead_;
  const size_t max_in_flight_;
  const device::StreamId stream_, ahead_stream_;
  device::EventId landed_;  // the next step's batch; invalid before the first
  std::deque<device::EventId> in_flight_;
};

}  // namespace

std::optional<Micros> PredictStep(const PreparedJob& job, const DeviceSpec& device, Bytes pool,
                                  int max_in_flight) {
  const StepProgram& step = *job.programs()[0];
  if (device.profile.empty() || step.program == nullptr) return std::nullopt;
  const auto sim =
      device::OpenDevice(absl::StrCat("sim:", device.profile, "+", device.overlap_model), {});
  if (!sim.ok()) return std::nullopt;  // its file has gone
  const auto program = (*sim)->Compile(step.graph);
  if (!program.ok()) return std::nullopt;
  memory::GranuleSource& granules = (*sim)->granules();
  const auto base = granules.Reserve(granules.granule());
  if (!base.ok()) return std::nullopt;
  const absl::Cleanup unreserve = [&] { granules.Unreserve(*base, granules.granule()); };
  const Bytes metrics = job.resident.metrics_bytes[0];
  const bool ahead = job.CopiesAheadAlone(pool, granules.granule());
  // Without a pause between them: the host is ahead of the device in a steady state.
  const auto end_of = [&](int steps) {
    Stopwatch stopwatch(sim->get(), *base, ahead, max_in_flight);
    const Micros begin = (*sim)->Now();
    for (int i = 0; i < steps; ++i) stopwatch.Step(step, **program, metrics);
    return stopwatch.End() - begin;
  };
  const Micros warm_up = end_of(kWarmUp);
  return (end_of(kWarmUp + kMeasured) - warm_up) / kMeasured;
}

}  // namespace ebb::runtime
