// A bound on how long stopping may take: requests that are being prepared cannot be interrupted.
#pragma once

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace ebb::daemon {

class StopGuard {
 public:
  // Calls `leave` on a thread of its own unless the guard is destroyed within `patience`.
  StopGuard(absl::Duration patience, std::function<void()> leave);
  ~StopGuard();
  StopGuard(const StopGuard&) = delete;
  StopGuard& operator=(const StopGuard&) = delete;

 private:
  Mutex mu_;
  CondVar stopped_changed_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace ebb::daemon
