// What a scheduling decision costs: one Ready/Next/Finished share a sub-model, by number of jobs.
#include <benchmark/benchmark.h>

#include "bench/decisions.h"

namespace ebb::bench {
namespace {

void BM_Decision(benchmark::State& state) {
  DecisionLoad load(state.range(0));
  if (!load.status().ok()) return state.SkipWithError("a job does not fit");
  for (auto _ : state) load.Decide();
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_Decision)->Arg(2)->Arg(10)->Arg(100)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ebb::bench

BENCHMARK_MAIN();
