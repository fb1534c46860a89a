// What a scheduling decision costs: one Ready/Next/Finished share a sub-model, by number of jobs.
#include <benchmark/benchmark.h>

#include <deque>

#include "scheduler/scheduler.h"

namespace ebb::scheduler {
namespace {

// Jobs of sixteen sub-models in up to eight lanes whose followers often have to wait.
void BM_Decision(benchmark::State& state) {
  const int64_t num_jobs = state.range(0);
  Scheduler scheduler(Policy::kFair);
  StepProfile profile;
  for (int64_t s = 0; s < 16; ++s) {
    profile.extent.push_back(MiB(100 * (s < 8 ? s + 1 : 16 - s)));
    profile.held_after.push_back(s < 15 ? std::min(profile.extent.back(), MiB(100 * (15 - s)))
                                        : Bytes(0));
  }
  std::vector<LaneId> lanes;
  for (int64_t i = 0; i < std::min<int64_t>(8, (num_jobs + 1) / 2); ++i) {
    lanes.push_back(scheduler.AddLane(MiB(1000)));
  }
  for (int64_t id = 0; id < num_jobs; ++id) {
    const LaneId lane = lanes[static_cast<size_t>(id) % lanes.size()];
    if (!scheduler.AddJob(JobId(id), {profile}, JobParams(), lane).ok()) {
      return state.SkipWithError("a job does not fit");
    }
    scheduler.Ready(JobId(id), 0);
  }
  std::deque<LaunchSeq> outstanding;
  for (auto _ : state) {
    std::optional<Decision> decision = scheduler.Next();
    while (!decision) {
      scheduler.Finished(outstanding.front(), Micros(100));
      outstanding.pop_front();
      decision = scheduler.Next();
    }
    outstanding.push_back(decision->seq);
    if (decision->last) scheduler.Ready(decision->job, 0);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_Decision)->Arg(2)->Arg(10)->Arg(100)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ebb::scheduler

BENCHMARK_MAIN();
