#include "runtime/host_budget.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace ebb::runtime {

struct HostLedger {
  const Bytes limit;
  Mutex mu;
  Bytes taken ABSL_GUARDED_BY(mu);
};

HostBudget::HostBudget(Bytes limit) : ledger_(new HostLedger{.limit = limit}) {}

absl::Status HostBudget::Share::Grow(Bytes more, absl::string_view what) {
  MutexLock lock(&ledger_->mu);
  if (more > ledger_->limit - ledger_->taken) {
    return absl::ResourceExhaustedError(absl::StrCat(
        what, " takes ", FormatBytes(taken_ + more),
        " of the host's memory or more; all jobs together may take ", FormatBytes(ledger_->limit),
        ", and others take ", FormatBytes(ledger_->taken - taken_),
        ": wait for a job to end, forget one that has (ebb rm), use smaller files or raise ebbd "
        "--host_memory"));
  }
  ledger_->taken += more;
  taken_ += more;
  return absl::OkStatus();
}

void HostBudget::Share::Shrink(Bytes to) {
  if (to >= taken_) return;
  MutexLock lock(&ledger_->mu);
  ledger_->taken -= taken_ - to;
  taken_ = to;
}

Bytes HostBudget::limit() const { return ledger_->limit; }

Bytes HostBudget::taken() const {
  MutexLock lock(&ledger_->mu);
  return ledger_->taken;
}

Bytes HostMemory() {
  int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    int64_t limit = 0;  // "max" is no number
    if (std::ifstream(path) >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return Bytes(bytes);
}

}  // namespace ebb::runtime
