#include "perfmodel/fabric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ebb::perfmodel {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr CollectiveKind kAllKinds[] = {CollectiveKind::kAllReduce,     CollectiveKind::kAllGather,
                                        CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll,
                                        CollectiveKind::kBroadcast,     CollectiveKind::kSendRecv};

// 10 us and `gbs` of busbw.
Curve Made(CollectiveKind kind, int64_t ranks, double gbs, int64_t nodes = 1) {
  std::vector<CurvePoint> points;
  for (double bytes = 1024; bytes <= 1 << 30; bytes *= 2) {
    points.push_back({bytes, 10 + bytes * BusFactor(kind, ranks) / (gbs * 1e3)});
  }
  return *Curve::Make({kind, ranks, nodes, "test"}, points);
}

Fabric Of(std::vector<Curve> curves, std::optional<Topology> topology = {}) {
  auto fabric = Fabric::Make("test", std::move(curves), topology);
  EXPECT_TRUE(fabric.ok()) << fabric.status();
  return *std::move(fabric);
}

TEST(Fabric, AnswersFromTheCurveOfThatKindAndRanksFirst) {
  const auto preset = FindFabric("a100-nvswitch");
  ASSERT_TRUE(preset.ok());
  const Fabric fabric =
      Of({Made(CollectiveKind::kAllReduce, 4, 100), Made(CollectiveKind::kAllReduce, 8, 200),
          Made(CollectiveKind::kAllReduce, 8, 20, 2)},
         preset->topology());
  const auto eight = fabric.Predict({.ranks = 8, .bytes = 1 << 20});
  ASSERT_TRUE(eight.ok());
  EXPECT_NEAR(eight->median, 10 + (1 << 20) * 1.75 / 200e3, 1e-6);
  EXPECT_TRUE(eight->in_hull);
  EXPECT_THAT(eight->source, StartsWith("measured: all_reduce of 8 ranks"));
}

TEST(Fabric, ScalesACurveOfOtherRanksByVolumeAndSaysSo) {
  const auto preset = FindFabric("a100-nvswitch");
  const std::vector<Curve> curves = {Made(CollectiveKind::kAllReduce, 4, 120)};
  const double expected = curves[0].At(1 << 26).median * 1.75 / 1.5;
  const auto switched = Of(curves, preset->topology()).Predict({.ranks = 8, .bytes = 1 << 26});
  const auto unknown = Of(curves).Predict({.ranks = 8, .bytes = 1 << 26});
  const auto mesh =
      Of(curves, FindFabric("v100-nvmesh")->topology()).Predict({.ranks = 8, .bytes = 1 << 26});
  ASSERT_TRUE(switched.ok() && unknown.ok() && mesh.ok());
  for (const auto& one : {switched, unknown, mesh}) {
    EXPECT_NEAR(one->median, expected, 1e-6 * expected);
    EXPECT_FALSE(one->in_hull);
    EXPECT_THAT(one->source, StartsWith("extrapolated to 8 ranks: measured: all_reduce of 4"));
  }
  EXPECT_GT(unknown->high, switched->high);
  EXPECT_GT(mesh->high, unknown->high);
  EXPECT_THAT(mesh->source, HasSubstr("not switched"));
}

TEST(Fabric, DrawsALineThroughTwoCurvesThatHaveOtherRanks) {
  // 300 us whatever the ranks, and 200 us of a link's work.
  const auto micros = [](int64_t ranks, double bytes) {
    return 300 * bytes / 1e6 + 200 * bytes / 1e6 * BusFactor(CollectiveKind::kAllReduce, ranks);
  };
  std::vector<Curve> curves;
  for (const int64_t ranks : {2, 4}) {
    std::vector<CurvePoint> points;
    for (double bytes = 1e6; bytes <= 1e9; bytes *= 2) {
      points.push_back({bytes, micros(ranks, bytes)});
    }
    curves.push_back(*Curve::Make({.ranks = ranks, .source = "test"}, points));
  }
  const Fabric fabric = Of(curves);
  for (const int64_t ranks : {3, 8}) {
    const auto estimate = fabric.Predict({.ranks = ranks, .bytes = 5e7});
    EXPECT_NEAR(estimate->median / micros(ranks, 5e7), 1, 1e-3) << ranks;
    EXPECT_THAT(estimate->source, HasSubstr("on a line through"));
  }
}

TEST(Fabric, NeverFallsWithBytesBetweenAndBeyondNoisyCurves) {
  uint32_t seed = 1;
  const auto noise = [&] {
    seed = seed * 1664525 + 1013904223;
    return 0.5 + static_cast<double>(seed >> 8) / (1 << 24);
  };
  std::vector<Curve> curves;
  for (const int64_t ranks : {2, 4}) {
    std::vector<CurvePoint> points;
    for (double bytes = 1024; bytes < 1e8; bytes *= 1.5) {
      points.push_back({bytes, (20 + bytes / 1e5) * noise()});
    }
    curves.push_back(*Curve::Make({.ranks = ranks, .source = "noise"}, points));
  }
  const Fabric fabric = Of(curves, FindFabric("h100-ib400")->topology());
  for (const CollectiveKind kind : kAllKinds) {
    for (const int64_t ranks : {2, 3, 8, 16}) {
      double last = 0;
      for (double bytes = 10; bytes < 1e9; bytes *= 1.03) {
        const double now = fabric.Predict({.kind = kind, .ranks = ranks, .bytes = bytes})->median;
        ASSERT_GE(now, last) << Name(kind) << " of " << ranks << " ranks, " << bytes;
        last = now;
      }
    }
  }
}

TEST(Fabric, CrossesNodesByTheTopologysRatio) {
  const auto topology = *FindFabric("a100-ethernet100")->topology();
  const Fabric fabric = Of({Made(CollectiveKind::kAllReduce, 8, 200)}, topology);
  const auto one = fabric.Predict({.ranks = 8, .bytes = 1 << 26});
  const auto two = fabric.Predict({.ranks = 16, .bytes = 1 << 26});
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_GT(two->median, 5 * one->median) << "one adapter of 12.5 GB/s for 8 GPUs";
  EXPECT_THAT(two->source, HasSubstr("by the topology"));
}

TEST(Fabric, KnowsThatAnAdapterCarriesMoreOfAllToAllThanOfAllReduce) {
  const auto topology = *FindFabric("a100-ib200")->topology();
  const std::vector<Curve> curves = {Made(CollectiveKind::kAllReduce, 16, 150, 2)};
  const Fabric known = Of(curves, topology);
  const double bytes = 1 << 28;
  for (const CollectiveKind kind : {CollectiveKind::kAllToAll, CollectiveKind::kSendRecv}) {
    const auto estimate = known.Predict({.kind = kind, .ranks = 16, .bytes = bytes});
    ASSERT_TRUE(estimate.ok()) << estimate.status();
    const double busbw = bytes * BusFactor(kind, 16) / (estimate->median * 1e3);
    EXPECT_LT(busbw, 50) << "of 25 GB/s adapters, one a rank";
    EXPECT_THAT(estimate->source, HasSubstr("by the topology"));
    EXPECT_EQ(Of(curves).Predict({.kind = kind, .ranks = 16, .bytes = bytes}).status().code(),
              absl::StatusCode::kUnimplemented);
  }
}

TEST(Fabric, PutsGroupsOfAStrideOnTheNodesThatTheyReach) {
  const double bytes = 1 << 26;
  const auto micros = [&](const Fabric& fabric, CollectiveKind kind, int64_t ranks,
                          int64_t stride) {
    const auto estimate =
        fabric.Predict({.kind = kind, .ranks = ranks, .bytes = bytes, .stride = stride});
    EXPECT_TRUE(estimate.ok()) << estimate.status();
    return estimate.ok() ? estimate->median : 0;
  };
  const Fabric sheet = *FindFabric("a100-ib200");
  const Fabric measured = Of({Made(CollectiveKind::kAllReduce, 4, 220)}, sheet.topology());
  for (const Fabric* fabric : {&sheet, &measured}) {
    const double near = micros(*fabric, CollectiveKind::kAllReduce, 4, 2);
    const double far = micros(*fabric, CollectiveKind::kAllReduce, 4, 8);
    EXPECT_DOUBLE_EQ(near, micros(*fabric, CollectiveKind::kAllReduce, 4, 1));
    EXPECT_GT(far, 6 * near) << "one adapter of 25 GB/s a rank";
    EXPECT_GE(far, bytes * 1.5 / 25e3);
  }
  EXPECT_GT(micros(sheet, CollectiveKind::kSendRecv, 2, 8),
            5 * micros(sheet, CollectiveKind::kSendRecv, 2, 1));
  // Eight groups at once share one port.
  EXPECT_GE(micros(*FindFabric("a100-ethernet100"), CollectiveKind::kAllReduce, 4, 8),
            8 * bytes * 1.5 / 12.5e3);
  EXPECT_FALSE(sheet.Predict({.ranks = 2, .bytes = 1, .stride = 0}).ok());
  EXPECT_FALSE(sheet.Predict({.ranks = 2, .bytes = 1, .stride = 1 << 11}).ok());
  const auto unknown = Of({Made(CollectiveKind::kAllReduce, 4, 220)})
                           .Predict({.ranks = 4, .bytes = bytes, .stride = 8});
  EXPECT_FALSE(unknown->in_hull);
  EXPECT_THAT(unknown->source, HasSubstr("as if its ranks were neighbours"));
}

TEST(Fabric, HoldsNoMoreRanksThanItsTopologyHasGpusUnlessMeasured) {
  const Fabric fabric =
      Of({Made(CollectiveKind::kAllReduce, 8, 150)}, FindFabric("a100-nvswitch")->topology());
  EXPECT_EQ(fabric.Predict({.ranks = 16, .bytes = 1e6}).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(Fabric, DerivesOtherKindsByVolume) {
  const Fabric fabric = Of({Made(CollectiveKind::kAllReduce, 8, 200)});
  for (const CollectiveKind kind : kAllKinds) {
    const auto estimate = fabric.Predict({.kind = kind, .ranks = 8, .bytes = 1 << 26});
    ASSERT_TRUE(estimate.ok()) << estimate.status();
    const double expected = 10 + (1 << 26) * BusFactor(kind, 8) / 200e3;
    EXPECT_NEAR(estimate->median, expected, 0.01 * expected) << Name(kind);
    if (kind == CollectiveKind::kAllReduce) continue;
    EXPECT_THAT(estimate->source, StartsWith("by volume from all_reduce: measured"));
    EXPECT_FALSE(estimate->in_hull);
  }
}

TEST(Fabric, TakesUnequalSharesByTheRankThatMovesMost) {
  const Fabric fabric = Of({Made(CollectiveKind::kAllToAll, 2, 100)});
  const auto equal = fabric.Predict({CollectiveKind::kAllToAll, 2, 2e6});
  ASSERT_TRUE(equal.ok());
  const double sends = 1e6, own = 5e7;
  for (const auto& matrix : std::vector<std::vector<std::vector<double>>>{
           {{own, sends}, {sends, own}}, {{0, sends}, {0, 0}}, {{0, 0}, {sends, 0}}}) {
    const auto unequal = fabric.Predict({CollectiveKind::kAllToAll, 2, 0, matrix});
    ASSERT_TRUE(unequal.ok());
    EXPECT_NEAR(unequal->median, equal->median, 1e-9);
  }
  const auto nothing = fabric.Predict({CollectiveKind::kAllToAll, 2, 0, {{own, 0}, {0, own}}});
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(nothing->median, 0);
}

TEST(Fabric, OneRankAndNoBytesTakeNoTime) {
  const auto fabric = FindFabric("h100-ib400");
  ASSERT_TRUE(fabric.ok());
  for (const CollectiveKind kind : kAllKinds) {
    EXPECT_EQ(fabric->Predict({.kind = kind, .ranks = 1, .bytes = 1e9})->median, 0);
    EXPECT_EQ(fabric->Predict({.kind = kind, .ranks = 8, .bytes = 0})->median, 0);
  }
}

TEST(Fabric, RefusesWhatIsNoCollective) {
  const auto fabric = FindFabric("a100-nvswitch");
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Collective& bad :
       std::vector<Collective>{{.ranks = 0, .bytes = 1},
                               {.ranks = -8, .bytes = 1},
                               {.ranks = 8, .bytes = -1},
                               {.ranks = 8, .bytes = infinity},
                               {.ranks = 8, .bytes = std::nan("")},
                               {CollectiveKind::kAllReduce, 2, 0, {{0, 1}, {1, 0}}},
                               {CollectiveKind::kAllToAll, 3, 0, {{0, 1}, {1, 0}}},
                               {CollectiveKind::kAllToAll, 2, 0, {{0, 1}, {1}}},
                               {CollectiveKind::kAllToAll, 2, 0, {{0, -1}, {1, 0}}}}) {
    EXPECT_EQ(fabric->Predict(bad).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(Fabric, SaysWhatToImportWhereNothingIsKnown) {
  const Fabric fabric = Of({Made(CollectiveKind::kSendRecv, 2, 100)});
  const auto status = fabric.Predict({.ranks = 8, .bytes = 1e6}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("import a curve of it or of all_reduce"));
  const auto many = FindFabric("a100-nvswitch")->Predict({.ranks = 16, .bytes = 1e6}).status();
  EXPECT_EQ(many.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(many.message(), "a100-nvswitch: 16 ranks on a fabric of 1 nodes of 8 GPUs");
}

TEST(Fabric, RefusesCurvesThatAreThereTwice) {
  const Curve eight = Made(CollectiveKind::kAllReduce, 8, 200);
  EXPECT_THAT(std::string(Fabric::Make("f", {eight, eight}).status().message()),
              HasSubstr("is there already"));
  const Curve copy = *Curve::Make({CollectiveKind::kAllReduce, 4, 1, "copy"}, eight.points());
  EXPECT_THAT(std::string(Fabric::Make("f", {eight, copy}).status().message()),
              HasSubstr("one of them is a copy"));
  EXPECT_FALSE(Fabric::Make("f", {}).ok());
}

TEST(Preset, TimeNeverFallsWithBytesAndBusbwNeverPassesTheLink) {
  for (const FabricPreset& preset : KnownFabrics()) {
    const auto fabric = FindFabric(preset.name);
    ASSERT_TRUE(fabric.ok()) << fabric.status();
    for (const CollectiveKind kind : kAllKinds) {
      for (int64_t ranks = 2; ranks <= std::min<int64_t>(preset.topology.gpus(), 64); ranks += 3) {
        double last = 0;
        for (double bytes = 1; bytes < 1e11; bytes *= 1.3) {
          const auto estimate = fabric->Predict({.kind = kind, .ranks = ranks, .bytes = bytes});
          ASSERT_TRUE(estimate.ok()) << estimate.status();
          ASSERT_GE(estimate->median, last) << preset.name << " " << Name(kind) << " " << bytes;
          const double busbw = bytes * BusFactor(kind, ranks) / (estimate->low * 1e3);
          ASSERT_LE(busbw, preset.topology.link_gbs * (1 + 1e-9)) << preset.name << Name(kind);
          ASSERT_THAT(estimate->source, StartsWith("a priori: topology of " + preset.name));
          last = estimate->median;
        }
      }
    }
  }
}

TEST(Preset, GoesByLowLatencyWhenSmallAndByBandwidthWhenLarge) {
  const auto a100 = FindFabric("a100-nvswitch");
  EXPECT_THAT(a100->Predict({.ranks = 8, .bytes = 256})->source, HasSubstr("LL"));
  EXPECT_THAT(a100->Predict({.ranks = 8, .bytes = 1e9})->source, HasSubstr("ring, simple"));
  EXPECT_THAT(FindFabric("h100-nvswitch")->Predict({.ranks = 8, .bytes = 1e9})->source,
              HasSubstr("sums in the switch"));
}

TEST(Preset, AnswersWhateverTheOrderOfRanksThatMoveAlike) {
  const auto fabric = FindFabric("a100-nvswitch");
  const std::vector<std::vector<double>> sends = {{0, 9e6, 1}, {2e6, 0, 3e6}, {0, 5e6, 0}};
  const std::vector<std::vector<double>> turned = {{0, 0, 5e6}, {1, 0, 9e6}, {3e6, 2e6, 0}};
  EXPECT_DOUBLE_EQ(fabric->Predict({CollectiveKind::kAllToAll, 3, 0, sends})->median,
                   fabric->Predict({CollectiveKind::kAllToAll, 3, 0, turned})->median);
}

TEST(Preset, IsNamedInTheErrorOfAnUnknownOne) {
  const auto status = FindFabric("a100").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a100-nvswitch, h100-ethernet100"));
}

}  // namespace
}  // namespace ebb::perfmodel
