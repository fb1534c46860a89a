#include "partitioner/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "absl/strings/str_cat.h"
#include "partitioner/groups.h"

namespace ebb::partitioner {
namespace {

using graph::Graph;
using graph::Liveness;
using graph::Phase;
using testing::ElementsAre;
using testing::HasSubstr;

// A training graph by hand: the partitioner looks at phases, mirrors, inputs and buffers only.
struct Training {
  Graph graph;
  Liveness liveness;

  int AddNode(Phase phase, int mirror = -1) {
    graph::Node node;
    node.id = NodeId(static_cast<int32_t>(graph.nodes.size()));
    node.name = absl::StrCat("n", node.id.value());
    node.phase = phase;
    node.mirror = NodeId(mirror);
    graph.nodes.push_back(node);
    return node.id.value();
  }
  // A tensor made by `first`, read by `readers`.
  void AddBuffer(int64_t bytes, int first, const std::vector<int>& readers, bool saved) {
    graph::Value value;
    value.id = ValueId(static_cast<int32_t>(graph.values.size()));
    graph.values.push_back(value);
    for (int reader : readers) {
      graph.nodes[static_cast<size_t>(reader)].inputs.push_back(value.id);
    }
    graph::Buffer buffer;
    buffer.bytes = Bytes(bytes);
    buffer.first = first;
    buffer.last = readers.empty() ? first : readers.back();
    buffer.cls = saved ? graph::BufferClass::kSaved : graph::BufferClass::kTransient;
    buffer.values = {value.id};
    liveness.buffer_of.push_back(static_cast<int>(liveness.buffers.size()));
    liveness.buffers.push_back(buffer);
  }
};

enum class Updates { kNone, kEach };

// Forward nodes that save `saved[i]` bytes each, a loss node, then for each forward node from the
// last a backward node and, if wanted, an update.
void AppendChain(const std::vector<int64_t>& saved, Updates updates, Training* t) {
  const int n = static_cast<int>(saved.size());
  const int first = static_cast<int>(t->graph.nodes.size());
  std::vector<int> backward(saved.size());
  for (int i = 0; i < n; ++i) t->AddNode(Phase::kForward);
  t->AddNode(Phase::kLoss);
  for (int i = n - 1; i >= 0; --i) {
    backward[static_cast<size_t>(i)] = t->AddNode(Phase::kBackward, first + i);
    if (updates == Updates::kEach) t->AddNode(Phase::kUpdate, first + i);
  }
  for (int i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    t->AddBuffer(saved[at], first + i, {first + i + 1, backward[at]}, true);
  }
}

Training Chain(const std::vector<int64_t>& saved) {
  Training t;
  AppendChain(saved, Updates::kEach, &t);
  return t;
}

PartitionOptions Options(int64_t quantum, int max_groups = 16, int min_groups = 1) {
  PartitionOptions options;
  options.quantum = Bytes(quantum);
  options.max_groups = max_groups;
  options.min_groups = min_groups;
  return options;
}

Partition MustSplit(const Training& t, const PartitionOptions& options) {
  absl::StatusOr<Partition> partition = Split(t.graph, t.liveness, options);
  EXPECT_TRUE(partition.ok()) << partition.status();
  const absl::Status status = Verify(*partition, t.graph);
  EXPECT_TRUE(status.ok()) << status;
  return *partition;
}

std::vector<std::pair<int, int>> Ranges(const Partition& partition) {
  std::vector<std::pair<int, int>> ranges;
  for (const SubModel& s : partition.sub_models) ranges.emplace_back(s.first, s.last);
  return ranges;
}

TEST(Partition, BackwardGroupsMirrorForwardGroups) {
  const Partition partition = MustSplit(Chain({10, 10, 10, 10}), Options(20));
  // f0 f1 | f2 f3 loss | b3 u3 b2 u2 | b1 u1 b0 u0
  EXPECT_THAT(Ranges(partition),
              ElementsAre(std::pair(0, 1), std::pair(2, 4), std::pair(5, 8), std::pair(9, 12)));
  EXPECT_EQ(partition.sub_models[0].saved, Bytes(20));
  EXPECT_EQ(partition.sub_models[2].saved, Bytes(0));
  EXPECT_EQ(partition.sub_models[2].phase, Phase::kBackward);
}

TEST(Partition, IsBalancedOnLongChains) {
  for (int n : {16, 50, 161, 400}) {
    std::vector<int64_t> saved;
    for (int i = 0; i < n; ++i) saved.push_back(1000 + 37 * i % 400);
    const int64_t total = std::accumulate(saved.begin(), saved.end(), int64_t{0});
    const Partition partition = MustSplit(Chain(saved), Options(total / 8));
    int64_t largest = 0, groups = 0;
    for (const SubModel& s : partition.sub_models) {
      groups += s.phase == Phase::kForward;
      largest = std::max(largest, s.saved.count());
    }
    EXPECT_NEAR(static_cast<double>(groups), 8, 1) << n;
    EXPECT_LE(static_cast<double>(largest) * static_cast<double>(groups) / total, 1.22) << n;
    EXPECT_EQ(partition.sub_models.size(), static_cast<size_t>(2 * groups)) << n;
  }
}

TEST(Partition, HasNoMoreGroupsThanTheLargestUnitAllows) {
  // One convolution is two thirds of the whole: cutting the rest finer buys nothing.
  const Partition partition = MustSplit(Chain({10, 100, 10, 10, 10, 10}), Options(5));
  EXPECT_EQ(partition.sub_models.size(), 2u);
}

TEST(Partition, ObeysTheNumberOfGroupsAskedFor) {
  const std::vector<int64_t> saved(64, 10);
  EXPECT_EQ(MustSplit(Chain(saved), Options(1)).sub_models.size(), 32u);
  EXPECT_EQ(MustSplit(Chain(saved), Options(1, 8)).sub_models.size(), 16u);
  EXPECT_EQ(MustSplit(Chain(saved), Options(100'000)).sub_models.size(), 2u);
  EXPECT_EQ(MustSplit(Chain(saved), Options(100'000, 16, 4)).sub_models.size(), 8u);
}

TEST(Partition, AUnitAboveTheQuantumIsAGroupByItself) {
  const Partition partition = MustSplit(Chain({40, 30, 100, 50, 20}), Options(80));
  EXPECT_THAT(Ranges(partition),
              ElementsAre(std::pair(0, 1), std::pair(2, 5), std::pair(6, 11), std::pair(12, 15)));
}

TEST(Partition, TiesGoToFewerCrossingBytes) {
  // A node that saves nothing may be on either side; its input is large, its output small.
  Training t = Chain({10, 0, 10});
  t.AddBuffer(1000, 0, {1}, false);
  t.AddBuffer(1, 1, {2}, false);
  EXPECT_THAT(Ranges(MustSplit(t, Options(10))),
              ElementsAre(std::pair(0, 1), std::pair(2, 3), std::pair(4, 5), std::pair(6, 9)));
  Training u = Chain({10, 0, 10});
  u.AddBuffer(1, 0, {1}, false);
  u.AddBuffer(1000, 1, {2}, false);
  EXPECT_THAT(Ranges(MustSplit(u, Options(10))),
              ElementsAre(std::pair(0, 0), std::pair(1, 3), std::pair(4, 7), std::pair(8, 9)));
}

TEST(Partition, MicroBatchesAreCutOneByOne) {
  Training t;
  AppendChain({10, 10, 10, 10}, Updates::kNone, &t);  // nodes 0 to 8
  AppendChain({10, 10, 10, 10}, Updates::kEach, &t);  // nodes 9 to 21
  // A gradient that waits for the second part, and an input that both read.
  t.AddBuffer(1000, 8, {20}, false);
  t.AddBuffer(1000, 0, {2, 11}, false);
  const Partition partition = MustSplit(t, Options(20));
  EXPECT_THAT(Ranges(partition), ElementsAre(std::pair(0, 1), std::pair(2, 4), std::pair(5, 6),
                                             std::pair(7, 8), std::pair(9, 10), std::pair(11, 13),
                                             std::pair(14, 17), std::pair(18, 21)));
  std::vector<int64_t> saved;
  for (const SubModel& sub_model : partition.sub_models) saved.push_back(sub_model.saved.count());
  EXPECT_THAT(saved, ElementsAre(20, 20, 0, 0, 20, 20, 0, 0));
  EXPECT_EQ(partition.sub_models[4].phase, Phase::kForward);
}

TEST(Partition, CutsWhereTheGroupChangesForGood) {
  Training t;
  for (int i = 0; i < 4; ++i) t.AddNode(Phase::kForward);
  t.AddNode(Phase::kLoss);
  // A backward node of an early layer is made before the last of a late one.
  for (int mirror : {3, 1, 2, 1, 0}) t.AddNode(Phase::kBackward, mirror);
  for (int i = 0; i < 4; ++i) t.AddBuffer(10, i, {i + 1, 9}, true);
  EXPECT_THAT(Ranges(MustSplit(t, Options(20))),
              ElementsAre(std::pair(0, 1), std::pair(2, 4), std::pair(5, 7), std::pair(8, 9)));
}

TEST(Partition, UpdatesPutOffToTheEndAreASubModelOfTheirOwn) {
  Training t;
  for (int i = 0; i < 4; ++i) t.AddNode(Phase::kForward);
  t.AddNode(Phase::kLoss);
  for (int mirror : {3, 2, 1, 0}) t.AddNode(Phase::kBackward, mirror);
  for (int mirror : {0, 1, 2, 3}) t.AddNode(Phase::kUpdate, mirror);
  for (int i = 0; i < 4; ++i) t.AddBuffer(10, i, {i + 1, 8}, true);
  const Partition partition = MustSplit(t, Options(20));
  EXPECT_THAT(Ranges(partition), ElementsAre(std::pair(0, 1), std::pair(2, 4), std::pair(5, 6),
                                             std::pair(7, 8), std::pair(9, 12)));
  EXPECT_EQ(partition.sub_models.back().phase, Phase::kUpdate);
}

TEST(Partition, UpdatesPutOffInTheOrderOfBackwardAreCutAsItIs) {
  Training t;
  for (int i = 0; i < 4; ++i) t.AddNode(Phase::kForward);
  t.AddNode(Phase::kLoss);
  for (int mirror : {3, 2, 1, 0}) t.AddNode(Phase::kBackward, mirror);
  // The first needs all gradients: it belongs to the node that completed the last.
  for (int mirror : {0, 3, 2, 1, 0}) t.AddNode(Phase::kUpdate, mirror);
  for (int i = 0; i < 4; ++i) t.AddBuffer(10, i, {i + 1, 8}, true);
  EXPECT_THAT(Ranges(MustSplit(t, Options(20))),
              ElementsAre(std::pair(0, 1), std::pair(2, 4), std::pair(5, 6), std::pair(7, 8),
                          std::pair(9, 11), std::pair(12, 13)));
}

TEST(Partition, EvaluationIsCutByWhatItsNodesMake) {
  Training t;
  for (int i = 0; i < 6; ++i) t.AddNode(Phase::kForward);
  for (int i = 0; i < 6; ++i)
    t.AddBuffer(10, i, i < 5 ? std::vector<int>{i + 1} : std::vector<int>(), false);
  const Partition partition = MustSplit(t, Options(20));
  EXPECT_THAT(Ranges(partition), ElementsAre(std::pair(0, 1), std::pair(2, 3), std::pair(4, 5)));
  EXPECT_EQ(partition.sub_models[0].saved, Bytes(0));
}

TEST(Partition, RefusesWhatMakesNoSense) {
  EXPECT_EQ(Split(Graph(), Liveness(), Options(1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  const Training t = Chain({1});
  EXPECT_FALSE(Split(t.graph, t.liveness, Options(0)).ok());
  EXPECT_FALSE(Split(t.graph, t.liveness, Options(1, 2, 3)).ok());
}

TEST(Partition, VerifySeesGapsAndMissingNodes) {
  const Training t = Chain({10, 10, 10, 10});
  const Partition good = MustSplit(t, Options(20));
  Partition bad = good;
  bad.sub_models[1].first = 3;
  EXPECT_THAT(std::string(Verify(bad, t.graph).message()), HasSubstr("should begin at 2"));
  bad = good;
  bad.sub_models.pop_back();
  EXPECT_THAT(std::string(Verify(bad, t.graph).message()), HasSubstr("covers 9 of 13 nodes"));
  EXPECT_THAT(ToText(good, t.graph), HasSubstr("nodes    2 to    4"));
}

TEST(Groups, AreTheBestOfAllWaysToCut) {
  // Against trying every way, on small rows.
  uint64_t state = 1;
  const auto random = [&](int64_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(bound));
  };
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const int n = 2 + static_cast<int>(random(8));
    const int groups = 1 + static_cast<int>(random(n));
    std::vector<Bytes> weights, crossing;
    for (int i = 0; i < n; ++i) {
      weights.push_back(Bytes(random(6)));
      crossing.push_back(Bytes(random(9)));
    }
    const auto measure = [&](const std::vector<int>& firsts) {
      int64_t largest = 0, squares = 0, crossed = 0;
      for (size_t g = 0; g < firsts.size(); ++g) {
        const int end = g + 1 < firsts.size() ? firsts[g + 1] : n;
        int64_t sum = 0;
        for (int i = firsts[g]; i < end; ++i) sum += weights[static_cast<size_t>(i)].count();
        largest = std::max(largest, sum);
        squares += sum * sum;
        if (g > 0) crossed += crossing[static_cast<size_t>(firsts[g])].count();
      }
      return std::tuple(largest, squares, crossed);
    };
    const Bytes maximum = LeastMaximum(weights, groups);
    const auto [largest, squares, crossed] = measure(BestCuts(weights, crossing, groups, maximum));
    EXPECT_EQ(largest, maximum.count());
    for (int cuts = 0; cuts < 1 << (n - 1); ++cuts) {
      std::vector<int> firsts = {0};
      for (int i = 1; i < n; ++i) {
        if (cuts >> (i - 1) & 1) firsts.push_back(i);
      }
      if (static_cast<int>(firsts.size()) != groups) continue;
      const auto [l, s, c] = measure(firsts);
      EXPECT_GE(l, largest);
      if (l > largest) continue;
      EXPECT_GE(std::pair(s, c), std::pair(squares, crossed));
    }
  }
}

TEST(Quantum, IsASixteenthWithinLimits) {
  EXPECT_EQ(QuantumFor(GiB(16)), GiB(1));
  EXPECT_EQ(QuantumFor(GiB(1)), MiB(64));
  EXPECT_EQ(QuantumFor(GiB(141)), GiB(8));
  EXPECT_EQ(QuantumFor(MiB(160)), MiB(10));
  EXPECT_EQ(QuantumFor(KiB(100)), KiB(64));
}

}  // namespace
}  // namespace ebb::partitioner
