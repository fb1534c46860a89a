// What micro-batches free of the zoo's models without batch norm, at the batch that fills a 16 GB
// device alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "absl/strings/str_format.h"
#include "device/sim/roofline.h"
#include "graph/liveness.h"
#include "graph/micro_batch.h"
#include "graph/recompute.h"
#include "graph/separable.h"
#include "memory/stack_plan.h"
#include "partitioner/partition.h"
#include "tests/model/zoo_table.h"

namespace ebb {
namespace {

Bytes PeakOf(const graph::Graph& graph) {
  return LivePeak(graph::ComputeLiveness(graph), static_cast<int>(graph.nodes.size()));
}

absl::StatusOr<graph::Graph> MicroBatched(const std::string& name,
                                          const graph::MicroBatchOptions& options) {
  EBB_ASSIGN_OR_RETURN(model::ZooModel zoo,
                       model::BuildZooModel(name, options.batch / options.parts));
  return graph::BuildMicroBatchedGraph(zoo.graph, {.loss = zoo.loss, .optimizer = zoo.optimizer},
                                       options);
}

struct Expected {
  std::string name;
  int64_t batch = 0;
  double percent = 0;  // by which two parts lower the live peak; measured, rounded down
};
void PrintTo(const Expected& expected, std::ostream* out) { *out << expected.name; }

class ZooMicroBatches : public ::testing::TestWithParam<Expected> {};

TEST_P(ZooMicroBatches, LowerThePeak) {
  const auto& [name, batch, percent] = GetParam();
  const auto whole = testing::ZooTrainingGraph(name, batch);
  ASSERT_TRUE(whole.ok()) << whole.status();
  Bytes before = PeakOf(*whole);
  std::string row = absl::StrFormat("%-14s batch %3d: %5.0f MiB", name, batch, before / MiB(1));
  for (int parts : {2, 4}) {
    const auto micro = MicroBatched(name, {.batch = batch, .parts = parts});
    ASSERT_TRUE(micro.ok()) << micro.status();
    const auto large = model::BuildZooModel(name, batch);
    const auto small = model::BuildZooModel(name, batch / parts);
    ASSERT_TRUE(large.ok() && small.ok());
    EXPECT_TRUE(
        graph::CheckSeparable(large->graph, small->graph, {.loss = small->loss}, parts).ok());
    ASSERT_TRUE(graph::Verify(*micro).ok()) << graph::Verify(*micro);
    const graph::Liveness liveness = graph::ComputeLiveness(*micro);
    const int nodes = static_cast<int>(micro->nodes.size());
    const Bytes peak = LivePeak(liveness, nodes);
    EXPECT_LT(peak, before);
    if (parts == 2) {
      EXPECT_GE(100 * (1 - peak / before), percent);
    }
    before = peak;
    const auto partition =
        partitioner::Split(*micro, liveness, {.quantum = partitioner::QuantumFor(GiB(15))});
    ASSERT_TRUE(partition.ok()) << partition.status();
    EXPECT_TRUE(partitioner::Verify(*partition, *micro).ok());
    std::vector<memory::LiveRange> ranges;
    for (const graph::Buffer& buffer : liveness.buffers) {
      ranges.push_back({buffer.bytes, buffer.first, buffer.last});
    }
    const double plan = memory::PlanStack(ranges, nodes, Bytes(256)).peak / peak;
    EXPECT_LE(plan, 1.05);
    absl::StrAppendFormat(&row, ", in %d: %5.0f MiB (plan %.3f, %d nodes)", parts, peak / MiB(1),
                          plan, nodes);
  }
  std::cout << row << "\n";
}

INSTANTIATE_TEST_SUITE_P(All, ZooMicroBatches,
                         ::testing::Values(Expected{"vgg16", 240, 45},
                                           Expected{"bert_base_128", 140, 46},
                                           Expected{"bert_base_384", 32, 46},
                                           Expected{"gpt2", 8, 47}),
                         [](const auto& info) { return info.param.name; });

// Every part is lowered, though one alone does not lower the peak of the step.
TEST(ZooMicroBatch, GoesTogetherWithRecompute) {
  const auto profile = device::LoadSimProfile("v100-16gb");
  ASSERT_TRUE(profile.ok()) << profile.status();
  const auto micro = MicroBatched("gpt2", {.batch = 16, .parts = 4});
  ASSERT_TRUE(micro.ok()) << micro.status();
  const auto recomputed = graph::Recompute(
      *micro, {.most_cost = 0.02, .cost = [&](const graph::Graph& graph, const graph::Node& node) {
                 return device::CostAlone(*profile, graph, node).micros;
               }});
  ASSERT_TRUE(recomputed.ok()) << recomputed.status();
  EXPECT_TRUE(graph::Verify(recomputed->graph).ok()) << graph::Verify(recomputed->graph);
  const double percent = 100 * (1 - recomputed->live_peak_after / recomputed->live_peak_before);
  std::cout << absl::StrFormat("gpt2 in 4: %.0f -> %.0f MiB by recompute\n",
                               recomputed->live_peak_before / MiB(1),
                               recomputed->live_peak_after / MiB(1));
  EXPECT_GE(percent, 30);
}

TEST(ZooMicroBatch, RefusesBatchNorm) {
  const absl::Status status = MicroBatched("resnet50", {.batch = 8, .parts = 2}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("node 'bn1' (BatchNorm)"));
}

}  // namespace
}  // namespace ebb
