#include "perfmodel/step_traces.h"

#include <gtest/gtest.h>

namespace ebb::perfmodel {
namespace {

std::vector<RankProgram> Pipeline() {
  const Task kernel{.name = "gemm", .host_us = 2, .micros = 10, .after = {}};
  const Task copy{
      .name = "batch", .stream = 2, .resource = Resource::kCopy, .micros = 3, .after = {}};
  const Task send{.name = "activation",
                  .stream = 1,
                  .resource = Resource::kCommunication,
                  .micros = 4,
                  .after = {0},
                  .collective = 0};
  const Task reduce{.name = "gradients",
                    .stream = 1,
                    .resource = Resource::kCommunication,
                    .micros = 6,
                    .after = {},
                    .collective = 1};
  const Task wait{.name = "end", .after = {0}, .host_waits = true};
  return {{{kernel, send, copy, reduce, wait}}, {{kernel, send, kernel, reduce}}};
}

TEST(StepTraces, TheTimelineShowsWhatTheSimulationSays) {
  const std::vector<RankProgram> programs = Pipeline();
  const auto step = Simulate(programs, {.straggler = {1, 2}});
  ASSERT_TRUE(step.ok()) << step.status();
  const KinetoTrace trace = KinetoOf(programs[0], step->ranks[0], 0, 2);
  const auto read = ReadKineto(WriteKineto(trace));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ranks, 2);
  int kernels = 0, copies = 0, waits = 0;
  for (const KinetoEvent& event : read->events) {
    kernels += event.kind == KinetoKind::kKernel;
    copies += event.kind == KinetoKind::kMemcpy;
    waits += event.name == "waiting for ranks: activation";
    if (event.kind == KinetoKind::kKernel && event.name == "activation") {
      EXPECT_DOUBLE_EQ(event.begin, 12);
      EXPECT_DOUBLE_EQ(event.end(), 28);
    }
    if (event.name == "waiting for ranks: activation") {
      EXPECT_DOUBLE_EQ(event.micros, 12);
    }
  }
  EXPECT_EQ(kernels, 3);
  EXPECT_EQ(copies, 1);
  EXPECT_EQ(waits, 1);
}

TEST(StepTraces, TheGraphHasDependenciesAndWhatIsMoved) {
  const std::vector<RankProgram> programs = Pipeline();
  const std::vector<NamedCollective> collectives = {
      {.what = {.kind = CollectiveKind::kSendRecv, .ranks = 2, .bytes = 100},
       .source = 0,
       .destination = 1},
      {.what = {.kind = CollectiveKind::kAllReduce, .ranks = 2, .bytes = 4000}, .group = "dp"}};
  const auto sender = ReadChakra(WriteChakra(ChakraOf(programs[0], collectives, 0, nullptr)));
  const auto receiver = ReadChakra(WriteChakra(ChakraOf(programs[1], collectives, 1, nullptr)));
  ASSERT_TRUE(sender.ok() && receiver.ok()) << sender.status() << receiver.status();
  EXPECT_EQ(sender->nodes[1].type, ChakraType::kSend);
  EXPECT_EQ(receiver->nodes[1].type, ChakraType::kReceive);
  EXPECT_EQ(sender->nodes[1].Integer("comm_size"), 100);
  EXPECT_EQ(sender->nodes[1].Integer("comm_dst"), 1);
  EXPECT_EQ(sender->nodes[1].Integer("comm_tag"), receiver->nodes[1].Integer("comm_tag"));
  EXPECT_EQ(sender->nodes[1].data_deps, std::vector<uint64_t>{1});
  EXPECT_EQ(sender->nodes[3].type, ChakraType::kCollective);
  EXPECT_EQ(sender->nodes[3].Integer("comm_type"), 0);
  EXPECT_EQ(sender->nodes[3].control_deps, std::vector<uint64_t>{2});
  EXPECT_EQ(sender->nodes[4].Integer("is_cpu_op"), 1);
  EXPECT_EQ(receiver->nodes[2].control_deps, std::vector<uint64_t>{1});
}

}  // namespace
}  // namespace ebb::perfmodel
