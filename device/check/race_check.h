// A wrapper that finds races on a device: accesses to the same bytes that nothing orders, whatever
// happened to run first. It knows no jobs, lanes or plans: only what is enqueued, recorded, waited
// for and seen complete. Works as well on devices that compute nothing. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "device/device.h"

namespace ebb::device {

struct RaceCheckOptions {
  // Called with a fault in words, both accesses with their streams, nodes and addresses, on the
  // thread whose call showed it; at most once a launch, copy or write. It must not use the device.
  std::function<void(const std::string& fault)> on_fault;
  // What becomes of bytes that are in no use any more after a launch.
  enum class Released {
    kKeep,
    kPoison,  // filled with NaN, in stream order; for devices whose memory is the host's
  };
  Released released = Released::kKeep;
};

// Reports as faults:
// - a read that is not ordered after the last write of its bytes, a write that is not ordered after
//   the last write or after a read since. Ordered: on the same stream; by Record and Wait; or by
//   Query or Synchronize, when the host had seen the one complete before it enqueued the other;
// - bytes that are decommitted or unreserved before the host has seen their last access complete;
// - an access to addresses of the device's granules that have no memory behind them.
// Programs must have been compiled by the wrapper. What the host itself reads and writes is not
// seen.
std::unique_ptr<Device> CheckRaces(std::unique_ptr<Device> device, RaceCheckOptions options);

}  // namespace ebb::device
