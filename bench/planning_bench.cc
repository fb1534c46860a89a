// What planning a job costs before it gets a byte, without kernels and data: autodiff, liveness,
// cuts and stack plan of models of the zoo. The bound is 2 s for GPT-2 and ResNet-152.
#include <benchmark/benchmark.h>

#include "graph/liveness.h"
#include "graph/training.h"
#include "memory/stack_plan.h"
#include "model/zoo/zoo.h"
#include "partitioner/partition.h"

namespace ebb {
namespace {

absl::StatusOr<graph::Graph> TrainingGraph(const std::string& name, int64_t batch) {
  auto zoo = model::BuildZooModel(name, batch);
  if (!zoo.ok()) return zoo.status();
  return graph::BuildTrainingGraph(std::move(zoo->graph),
                                   {.loss = zoo->loss, .optimizer = zoo->optimizer});
}

std::vector<memory::LiveRange> Ranges(const graph::Liveness& liveness) {
  std::vector<memory::LiveRange> ranges;
  for (const graph::Buffer& buffer : liveness.buffers) {
    ranges.push_back({buffer.bytes, buffer.first, buffer.last});
  }
  return ranges;
}

// All of it: what Prepare() does for a device whose programs cost nothing.
void BM_Plan(benchmark::State& state, const std::string& name, int64_t batch) {
  for (auto _ : state) {
    const auto graph = TrainingGraph(name, batch);
    if (!graph.ok()) return state.SkipWithError(graph.status().ToString().c_str());
    const graph::Liveness liveness = graph::ComputeLiveness(*graph);
    const auto partition = partitioner::Split(*graph, liveness, {.quantum = GiB(1)});
    const memory::StackPlan plan =
        memory::PlanStack(Ranges(liveness), static_cast<int>(graph->nodes.size()), Bytes(2 << 20));
    benchmark::DoNotOptimize(partition.ok());
    benchmark::DoNotOptimize(plan.peak);
  }
}

// The stack plan alone, which is most of it.
void BM_StackPlan(benchmark::State& state, const std::string& name, int64_t batch) {
  const auto graph = TrainingGraph(name, batch);
  if (!graph.ok()) return state.SkipWithError(graph.status().ToString().c_str());
  const auto ranges = Ranges(graph::ComputeLiveness(*graph));
  memory::StackPlan plan;
  for (auto _ : state) {
    plan = memory::PlanStack(ranges, static_cast<int>(graph->nodes.size()), Bytes(2 << 20));
    benchmark::DoNotOptimize(plan.peak);
  }
  state.counters["ranges"] = static_cast<double>(ranges.size());
  state.counters["peak_over_live"] = plan.peak / memory::LivePeak(ranges, Bytes(2 << 20));
}

#define EBB_PLAN(bm)                                                                         \
  BENCHMARK_CAPTURE(bm, resnet50, "resnet50", 186)->Unit(benchmark::kMillisecond);           \
  BENCHMARK_CAPTURE(bm, resnet152, "resnet152", 88)->Unit(benchmark::kMillisecond);          \
  BENCHMARK_CAPTURE(bm, densenet121, "densenet121", 126)->Unit(benchmark::kMillisecond);     \
  BENCHMARK_CAPTURE(bm, bert_base_128, "bert_base_128", 141)->Unit(benchmark::kMillisecond); \
  BENCHMARK_CAPTURE(bm, gpt2, "gpt2", 6)->Unit(benchmark::kMillisecond)
EBB_PLAN(BM_Plan);
EBB_PLAN(BM_StackPlan);

}  // namespace
}  // namespace ebb

BENCHMARK_MAIN();
