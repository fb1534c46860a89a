#include "daemon/stop_guard.h"

#include <utility>

#include "absl/time/clock.h"

namespace ebb::daemon {

StopGuard::StopGuard(absl::Duration patience, std::function<void()> leave)
    : thread_([this, end = absl::Now() + patience, leave = std::move(leave)] {
        {
          MutexLock lock(&mu_);
          while (!stopped_ && absl::Now() < end) {
            stopped_changed_.WaitWithTimeout(&mu_, end - absl::Now());
          }
          if (stopped_) return;
        }
        leave();
      }) {}

StopGuard::~StopGuard() {
  {
    MutexLock lock(&mu_);
    stopped_ = true;
    stopped_changed_.SignalAll();
  }
  thread_.join();
}

}  // namespace ebb::daemon
