// How much of the host's memory jobs may take: their files while they are read and unpacked, and as
// long as a job holds what they became; batches staged there; the results of jobs that have ended.
// Small files can unpack to a thousand times their size, and a host without memory ends the daemon
// with all its jobs. Thread-safe; copies share one budget.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "base/units.h"

namespace ebb::runtime {

class HostBudget {
 public:
  explicit HostBudget(Bytes limit);

  // What one file or job takes; given back when it is destroyed, also after the budget itself. One
  // thread at a time.
  class Share {
   public:
    explicit Share(const HostBudget& budget) : ledger_(budget.ledger_) {}
    ~Share() { Shrink(Bytes(0)); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // ResourceExhausted: the budget has not so much left; "`what` takes ...".
    absl::Status Grow(Bytes more, absl::string_view what = "reading it");
    void Shrink(Bytes to);
    Bytes taken() const { return taken_; }

   private:
    const std::shared_ptr<struct HostLedger> ledger_;
    Bytes taken_;
  };

  Bytes limit() const;
  Bytes taken() const;

 private:
  std::shared_ptr<struct HostLedger> ledger_;
};

// Memory of the machine, or of the control group that the process runs in if that is less.
Bytes HostMemory();

}  // namespace ebb::runtime
