// Devices that a soak puts around the simulated one: one that fails launches, one that counts what
// is taken and given back. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"
#include "device/forwarding_device.h"

namespace ebb::bench {

// Fails a launch of the programs of one job, as a kernel does: the failure comes with the event.
class FaultDevice final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  class Fault {
   public:
    bool fired() const;

   private:
    friend class FaultDevice;
    mutable Mutex mu_;
    int64_t launches_left_ ABSL_GUARDED_BY(mu_) = 0;  // before the one that fails
    bool fired_ ABSL_GUARDED_BY(mu_) = false;
  };
  // Of the job in whose graphs a node's name begins with `tag`, launch number `launch` (from 0)
  // fails.
  std::shared_ptr<const Fault> FailLaunch(std::string tag, int64_t launch);

  absl::StatusOr<std::unique_ptr<device::Program>> Compile(
      const graph::Graph& graph) const override;
  void Launch(device::StreamId stream, const device::LaunchArgs& args) override;
  device::EventId Record(device::StreamId stream) override;
  device::EventState Query(device::EventId event) const override;
  void Release(device::EventId event) override;

 private:
  mutable Mutex mu_;
  std::map<std::string, std::shared_ptr<Fault>> tags_ ABSL_GUARDED_BY(mu_);
  // An address may be that of an earlier program: the newest counts.
  mutable absl::flat_hash_map<const device::Program*, std::shared_ptr<Fault>> faults_
      ABSL_GUARDED_BY(mu_);
  absl::flat_hash_set<device::StreamId> failed_streams_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_set<device::EventId> failed_events_ ABSL_GUARDED_BY(mu_);
};

// What is taken of a device and not given back.
class DeviceCounts {
 public:
  struct Held {
    int64_t streams = 0, events = 0;
    Bytes reserved, committed;
    bool operator==(const Held&) const = default;
  };
  Held held() const;
  void Add(const Held& change);

 private:
  mutable Mutex mu_;
  Held held_ ABSL_GUARDED_BY(mu_);
};
std::unique_ptr<device::Device> CountHeld(std::unique_ptr<device::Device> device,
                                          std::shared_ptr<DeviceCounts> counts);

}  // namespace ebb::bench
