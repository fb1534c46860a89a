#include "bench/soak.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace ebb::bench {
namespace {

void Add(const SoakFaults& from, SoakFaults* to) {
  to->deadlocks += from.deadlocks;
  to->aborts += from.aborts;
  to->starved += from.starved;
  to->ledger_errors += from.ledger_errors;
  to->races += from.races;
}

void Add(const SoakCounts& from, SoakCounts* to) {
  to->jobs += from.jobs;
  to->steps += from.steps;
  to->evaluating += from.evaluating;
  to->queued += from.queued;
  to->updates += from.updates;
  to->pauses += from.pauses;
  to->cancels += from.cancels;
  to->cancels_in_step += from.cancels_in_step;
  to->failures += from.failures;
  to->looks += from.looks;
  to->overlapping += from.overlapping;
  to->deep += from.deep;
  to->most_overtaken = std::max(to->most_overtaken, from.most_overtaken);
  to->device_seconds += from.device_seconds;
}

}  // namespace

absl::StatusOr<SoakReport> Soak(
    const SoakOptions& options, const std::function<void(int64_t)>& on_mix,
    const std::function<void(int64_t, const SoakMix&, const SoakOutcome&)>& on_end) {
  EBB_ASSIGN_OR_RETURN(const auto catalog, SoakCatalog::Create(options.device));
  SoakReport report{.device = catalog->device().spec(), .seed = options.seed};
  const int64_t first = options.only.value_or(0);
  const int64_t end = options.only ? first + 1 : options.mixes;
  for (int64_t number = first; number < end; ++number) {
    on_mix(number);
    EBB_ASSIGN_OR_RETURN(const SoakMix mix, DrawSoakMix(options.seed, number, *catalog));
    auto outcome = RunSoakMix(options, mix);
    EBB_RETURN_IF_ERROR(Annotate(outcome.status(), absl::StrCat("mix ", number)));
    Add(outcome->faults, &report.faults);
    Add(outcome->counts, &report.counts);
    ++report.mixes;
    on_end(number, mix, *outcome);
  }
  return report;
}

}  // namespace ebb::bench
