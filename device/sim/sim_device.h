// A GPU that does not exist: memory, streams and events in virtual time, no arithmetic. The engine
// above it is the one that trains; here it shows what sharing costs and brings
// (docs/device_sim.md). Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "device/device.h"
#include "device/sim/profile.h"
#include "device/sim/sim_granules.h"
#include "device/sim/timeline.h"

namespace ebb::device {

// Copies move no bytes and launches compute nothing; both take virtual time. Copies between two
// host addresses take none. Virtual time goes on in AwaitProgress, to the next event that
// completes, and in Synchronize and DestroyStream; it stands still otherwise.
class SimDevice final : public Device {
 public:
  // `like`: what profile.like names, where it names one; graphs are lowered and take scratch memory
  // as there, and batches are staged where it would.
  SimDevice(SimProfile profile, OverlapModel overlap, std::unique_ptr<const Device> like = nullptr);

  const SimProfile& profile() const { return profile_; }
  // While held, AwaitProgress lets no time pass: whatever is submitted meanwhile starts at one
  // instant. Synchronize and DestroyStream go on, they would never return.
  void HoldClock();
  void ReleaseClock();
  // Holds the clock from the first instant at or after `at` at which anything happens. Replaces
  // what was asked for before.
  void HoldAt(Micros at);

  // Of the thread that calls AwaitProgress, the engine's.
  enum class Standstill {
    kHeld,     // it has seen all there is to see, and more would happen if the clock went on
    kAtRest,   // it has seen all there is to see, and nothing more would happen
    kWorking,  // neither within the time given
  };
  // Blocks until that thread can do no more. For a driver that acts at instants of its choice, so
  // that a run is the same every time.
  Standstill AwaitStandstill(absl::Duration timeout);

  const DeviceSpec& spec() const override { return spec_; }
  memory::GranuleSource& granules() override { return granules_; }
  absl::StatusOr<char*> AllocateHost(Bytes bytes) override;
  void FreeHost(char* memory, Bytes bytes) override;
  absl::StatusOr<graph::Graph> Lower(graph::Graph graph) const override;
  absl::StatusOr<std::unique_ptr<Program>> Compile(const graph::Graph& graph) const override;
  StreamId CreateStream() override;
  void DestroyStream(StreamId stream) override;
  void Launch(StreamId stream, const LaunchArgs& args) override;
  void Copy(StreamId stream, void* to, const void* from, Bytes bytes) override;
  void Write(StreamId stream, void* to, absl::Span<const char> bytes) override;
  EventId Record(StreamId stream) override;
  void Wait(StreamId stream, EventId event) override;
  EventState Query(EventId event) const override;
  void Release(EventId event) override;
  void AwaitProgress(absl::Duration timeout) override;
  void Wake() override;
  void Synchronize(StreamId stream) override;
  Micros Now() const override;

 private:
  void Finish(StreamId stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Held() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return timeline_.now() >= hold_at_; }

  const SimProfile profile_;
  const std::unique_ptr<const Device> like_;  // null: a device of its constants alone
  const DeviceSpec spec_;
  SimGranules granules_;

  mutable Mutex mu_;
  CondVar changed_;
  CondVar still_;
  double hold_at_ ABSL_GUARDED_BY(mu_);
  bool waiting_ ABSL_GUARDED_BY(mu_) = false;  // a thread waits in AwaitProgress
  int64_t progress_ ABSL_GUARDED_BY(mu_) = 0;  // events completed and calls of Wake()
  int64_t progress_seen_ ABSL_GUARDED_BY(mu_) = 0;
  int32_t next_stream_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t next_event_ ABSL_GUARDED_BY(mu_) = 0;
  Timeline timeline_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<EventId, Timeline::Event> events_ ABSL_GUARDED_BY(mu_);
};

// "PROFILE", "PROFILE+slots" or "PROFILE+vector", where PROFILE is a built-in name or a YAML file;
// slots without a suffix. NotFound lists the profiles, InvalidArgument says what is wrong.
// `open_like` opens what a profile of a real device is like; without it such a profile is refused.
using OpenLike = std::function<absl::StatusOr<std::unique_ptr<Device>>(const std::string& name)>;
absl::StatusOr<std::unique_ptr<SimDevice>> OpenSim(const std::string& name,
                                                   const DeviceOptions& options,
                                                   const OpenLike& open_like = nullptr);
// `profile` itself, as above.
absl::StatusOr<std::unique_ptr<SimDevice>> MakeSim(SimProfile profile, OverlapModel overlap,
                                                   const OpenLike& open_like);

}  // namespace ebb::device
