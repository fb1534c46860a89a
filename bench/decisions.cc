#include "bench/decisions.h"

#include <time.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace ebb::bench {
namespace {

using scheduler::StepProfile;

StepProfile SixteenSubModels() {
  StepProfile profile;
  for (int64_t s = 0; s < 16; ++s) {
    profile.extent.push_back(MiB(100 * (s < 8 ? s + 1 : 16 - s)));
    profile.held_after.push_back(s < 15 ? std::min(profile.extent.back(), MiB(100 * (15 - s)))
                                        : Bytes(0));
  }
  return profile;
}

// The thread's own time: what else the machine does meanwhile is not the scheduler's.
double ThreadMicros() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// Of as many decisions as a tenth of a second has.
double MicrosADecision(DecisionLoad& load) {
  constexpr double kLeast = 1e5;
  constexpr int kBlock = 64;  // decisions between two looks at the clock
  int64_t decisions = 0;
  const double start = ThreadMicros();
  double taken = 0;
  while (taken < kLeast) {
    for (int i = 0; i < kBlock; ++i) load.Decide();
    decisions += kBlock;
    taken = ThreadMicros() - start;
  }
  return taken / static_cast<double>(decisions);
}

}  // namespace

DecisionLoad::DecisionLoad(int64_t jobs) : scheduler_(scheduler::Policy::kFair) {
  std::vector<LaneId> lanes;
  for (int64_t i = 0; i < std::min<int64_t>(8, (jobs + 1) / 2); ++i) {
    lanes.push_back(scheduler_.AddLane(MiB(1000)));
  }
  const StepProfile profile = SixteenSubModels();
  for (int64_t id = 0; id < jobs && status_.ok(); ++id) {
    const LaneId lane = lanes[static_cast<size_t>(id) % lanes.size()];
    status_ = scheduler_.AddJob(JobId(id), {profile}, scheduler::JobParams(), lane);
    if (status_.ok()) scheduler_.Ready(JobId(id), 0);
  }
}

void DecisionLoad::Decide() {
  std::optional<scheduler::Decision> decision = scheduler_.Next();
  while (!decision) {
    scheduler_.Finished(outstanding_.front(), Micros(100));
    outstanding_.pop_front();
    decision = scheduler_.Next();
  }
  outstanding_.push_back(decision->seq);
  if (decision->last) scheduler_.Ready(decision->job, 0);
}

absl::StatusOr<std::map<int64_t, double>> MeasureDecisions(const std::vector<int64_t>& jobs,
                                                           int runs) {
  std::map<int64_t, double> medians;
  for (const int64_t count : jobs) {
    std::vector<double> micros;
    for (int run = 0; run < runs; ++run) {
      DecisionLoad load(count);
      if (!load.status().ok()) return load.status();
      for (int64_t i = 0; i < 32 * count; ++i) load.Decide();  // two steps a job: warm
      micros.push_back(MicrosADecision(load));
    }
    std::sort(micros.begin(), micros.end());
    const size_t half = micros.size() / 2;
    medians[count] = micros.size() % 2 == 1 ? micros[half] : (micros[half - 1] + micros[half]) / 2;
  }
  return medians;
}

}  // namespace ebb::bench
