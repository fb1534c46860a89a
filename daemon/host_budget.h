// How much of the host's memory the files of jobs may take: while they are read and unpacked, and
// as long as a job holds what they became. Small files can unpack to a thousand times their size,
// and a host without memory ends the daemon with all its jobs. Thread-safe.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/units.h"

namespace ebb::daemon {

class HostBudget {
 public:
  explicit HostBudget(Bytes limit);

  // What one file takes; given back when it is destroyed, also after the budget itself. One thread.
  class Share {
   public:
    explicit Share(const HostBudget& budget) : ledger_(budget.ledger_) {}
    ~Share() { Shrink(Bytes(0)); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // ResourceExhausted: the budget has not so much left.
    absl::Status Grow(Bytes more);
    void Shrink(Bytes to);

   private:
    const std::shared_ptr<struct Ledger> ledger_;
    Bytes taken_;
  };

  Bytes taken() const;

 private:
  const std::shared_ptr<struct Ledger> ledger_;
};

// Memory of the machine, or of the control group that the process runs in if that is less.
Bytes HostMemory();

}  // namespace ebb::daemon
