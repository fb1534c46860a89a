#include "perfmodel/trace_program.h"

#include <gtest/gtest.h>

#include "perfmodel/simulate.h"

namespace ebb::perfmodel {
namespace {

// A step of 100 us: an op with a kernel, a collective of 10 us (and how long it waited), a wait for
// it, and a kernel after it that the host waits for.
KinetoTrace TraceOf(double begin, double wait, double host = 1) {
  KinetoTrace trace{.origin_us = 1000 + begin};
  const auto add = [&](KinetoKind kind, const char* name, double at,
                       double micros) -> KinetoEvent& {
    trace.events.push_back(
        {.kind = kind, .name = name, .begin = at * host, .micros = micros * host});
    return trace.events.back();
  };
  const auto launch = [&](int64_t correlation, double at) {
    add(KinetoKind::kRuntime, "cudaLaunchKernel", at, 4).correlation = correlation;
  };
  const auto kernel = [&](const char* name, int64_t correlation, int stream, double at,
                          double micros) {
    KinetoEvent& event = add(KinetoKind::kKernel, name, 0, 0);
    event.begin = at;
    event.micros = micros;
    event.correlation = correlation;
    event.stream = stream;
  };
  add(KinetoKind::kAnnotation, "ProfilerStep#3", 0, 100);
  add(KinetoKind::kOp, "aten::mm", 10, 10);
  launch(1, 12);
  add(KinetoKind::kOp, "record_param_comms", 25, 12);
  add(KinetoKind::kAnnotation, "nccl:all_reduce", 26, 10);
  add(KinetoKind::kRuntime, "cudaStreamWaitEvent", 27, 1);
  launch(2, 29);
  add(KinetoKind::kOp, "record_param_comms", 40, 5);
  add(KinetoKind::kRuntime, "cudaStreamWaitEvent", 42, 1);
  add(KinetoKind::kOp, "aten::mm", 50, 10);
  launch(3, 52);
  add(KinetoKind::kRuntime, "cudaStreamSynchronize", 65, 10 + wait);
  kernel("gemm", 1, 7, 16 * host, 8);
  kernel("ncclKernel_AllReduce", 2, 9, 33 * host, 10 + wait);
  kernel("gemm", 3, 7, 60 * host + wait, 8);
  return trace;
}

ExecutionTrace Recorded(int64_t address) {
  const auto node = [&](int64_t id, std::string name, int64_t elements) {
    ExecutionNode node{.id = id, .name = "record_param_comms", .thread = 1};
    node.collective = RecordedCollective{.name = std::move(name), .sequence = 5};
    node.collective->address = address;
    node.collective->in_elements = elements;
    node.collective->element_bytes = 4;
    return node;
  };
  return {.schema = "1.0.1", .nodes = {node(1, "allreduce", 64), node(2, "wait", 0)}};
}

struct Two {
  KinetoTrace trace[2] = {TraceOf(0, 20), TraceOf(20, 0)};
  ExecutionTrace execution[2] = {Recorded(77), Recorded(88)};
  HostTimeline timeline[2];
  std::vector<RankTrace> ranks;

  Two() {
    for (int rank = 0; rank < 2; ++rank) {
      auto found = TimelineOf(trace[rank], &execution[rank]);
      EXPECT_TRUE(found.ok()) << found.status();
      timeline[rank] = *std::move(found);
      ranks.push_back({&trace[rank], &timeline[rank]});
    }
  }
};

TEST(HostTimeline, PiecesSumToTheStepAndNameWhatTheyBelongTo) {
  const Two two;
  double sum = 0;
  for (const HostPiece& piece : two.timeline[1].pieces) sum += piece.micros;
  EXPECT_DOUBLE_EQ(sum, 100);
  EXPECT_DOUBLE_EQ(two.timeline[1].begin, 1020);
  EXPECT_DOUBLE_EQ(two.timeline[1].device_end, 1020 + 68);
  const auto find = [&](HostPart part, const std::string& op, const std::string& next) {
    double micros = -1;
    for (const HostPiece& piece : two.timeline[1].pieces) {
      if (piece.part == part && piece.op == op && piece.next == next) micros = piece.micros;
    }
    return micros;
  };
  EXPECT_EQ(find(HostPart::kBetween, "ProfilerStep", "aten::mm"), 5);
  EXPECT_EQ(find(HostPart::kBefore, "aten::mm", "cudaLaunchKernel"), 2);
  EXPECT_EQ(find(HostPart::kCall, "cudaLaunchKernel", ""), 4);
  EXPECT_EQ(find(HostPart::kAfter, "aten::mm", ""), 4);
  EXPECT_EQ(find(HostPart::kBetween, "nccl:all_reduce", "cudaLaunchKernel"), 1);
}

TEST(TraceProgram, AReplayEndsWhenTheTraceDid) {
  const Two two;
  const auto programs = ReplayOf(two.ranks);
  ASSERT_TRUE(programs.ok()) << programs.status();
  ASSERT_EQ(programs->collectives.size(), 1u);
  EXPECT_EQ(programs->collectives[0].name, "allreduce");
  EXPECT_EQ(programs->collectives[0].ranks, 2);
  EXPECT_EQ(programs->collectives[0].bytes, 256);
  EXPECT_EQ(programs->collectives[0].shortest, 10);
  EXPECT_EQ(programs->begins, (std::vector<double>{0, 20}));
  const auto step = Simulate(programs->ranks);
  ASSERT_TRUE(step.ok()) << step.status();
  // The collective is there at 20 + 33 at last, and takes 10; the kernels after it 8.
  for (const RankStep& rank : step->ranks) EXPECT_DOUBLE_EQ(rank.tasks[1].end, 63);
  EXPECT_DOUBLE_EQ(step->ranks[0].tasks[2].end, 71);
  EXPECT_DOUBLE_EQ(step->ranks[1].tasks[2].end, 84);
}

TEST(TraceProgram, LearnedTimesOfARankAtHalfSpeedReplaceItsOwn) {
  Two two;
  const HostTimeline* const known[] = {&two.timeline[1]};
  const auto host = HostTimes::Learn(known);
  ASSERT_TRUE(host.ok());
  const KinetoTrace slow = TraceOf(0, 0, 2);
  const auto timeline = TimelineOf(slow, &two.execution[0]);
  ASSERT_TRUE(timeline.ok());
  two.ranks[0] = {&slow, &*timeline};
  const auto programs = ProgramsOf(two.ranks, *host);
  ASSERT_TRUE(programs.ok()) << programs.status();
  const RankProgram& first = programs->ranks[0];
  ASSERT_EQ(first.tasks.size(), 5u);
  EXPECT_DOUBLE_EQ(first.tasks[0].host_us, 16);
  EXPECT_DOUBLE_EQ(first.tasks[1].host_us, 17);
  EXPECT_EQ(first.tasks[2].after, std::vector<int>{1});
  EXPECT_TRUE(first.tasks[3].host_waits);
  EXPECT_EQ(first.tasks[3].after, std::vector<int>{2});
  EXPECT_TRUE(Simulate(programs->ranks).ok());
}

TEST(TraceProgram, RanksOfOtherCollectivesAreRefused) {
  Two two;
  two.execution[1].nodes[0].collective->name = "all_to_all";
  const auto status = ReplayOf(two.ranks).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("rank 1"), absl::string_view::npos) << status;
  two.execution[1].nodes.pop_back();
  EXPECT_EQ(TimelineOf(two.trace[1], &two.execution[1]).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TraceProgram, WithoutExecutionTracesKernelsAreTheirCollectives) {
  Two two;
  for (int rank = 0; rank < 2; ++rank) {
    const auto timeline = TimelineOf(two.trace[rank], nullptr);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    two.timeline[rank] = *timeline;
  }
  const auto programs = ReplayOf(two.ranks);
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_EQ(programs->collectives.at(0).name, "ncclKernel_AllReduce");
  EXPECT_EQ(programs->ranks[0].tasks[2].after, std::vector<int>{1});
}

TEST(HostTimes, FallBackFromTheMostToTheLeastParticular) {
  const auto piece = [](std::string op, std::string previous, std::string next, double micros) {
    return HostPiece{
        .part = HostPart::kWithin, .op = op, .previous = previous, .next = next, .micros = micros};
  };
  HostTimeline timeline;
  timeline.pieces = {piece("a", "x", "y", 2), piece("a", "z", "y", 6), piece("a", "z", "w", 1),
                     piece("b", "", "", 11)};
  const HostTimeline* const known[] = {&timeline};
  const auto host = HostTimes::Learn(known);
  ASSERT_TRUE(host.ok());
  EXPECT_DOUBLE_EQ(host->Of(piece("a", "x", "y", 99)), 2);
  EXPECT_DOUBLE_EQ(host->Of(piece("a", "new", "y", 99)), 4);
  EXPECT_DOUBLE_EQ(host->Of(piece("a", "new", "new", 99)), 3);
  EXPECT_DOUBLE_EQ(host->Of(piece("new", "", "", 99)), 5);
  EXPECT_EQ(HostTimes::Learn({}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(HostTimes, TheFilteredMeanLeavesOutWhatLiesFarOut) {
  EXPECT_EQ(FilteredMean({}), 0);
  EXPECT_DOUBLE_EQ(FilteredMean({4, 6}), 5);
  EXPECT_DOUBLE_EQ(FilteredMean({4, 5, 6, 5, 4, 6, 900}), 5);
}

}  // namespace
}  // namespace ebb::perfmodel
