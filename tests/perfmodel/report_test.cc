#include "perfmodel/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/text.h"
#include "graph/training.h"
#include "perfmodel/report_text.h"
#include "perfmodel/scaling.h"

namespace ebb::perfmodel {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Rate : public OpPredictor {
 public:
  absl::StatusOr<Estimate> Predict(const Work& work) const override {
    if (work.family == Family::kSoftmax && !knows_softmax) {
      return absl::UnimplementedError("no model of softmax");
    }
    const double micros = std::max(work.flops / 1e7, work.bytes / 1e6);
    return Estimate{micros, 0.9 * micros, 1.1 * micros, true, "a rate"};
  }
  bool knows_softmax = true;
};
class Links : public CollectivePredictor {
 public:
  absl::StatusOr<Estimate> Predict(const Collective& what) const override {
    const double micros = what.bytes * BusFactor(what.kind, what.ranks) / bytes_per_us;
    return Estimate{micros, 0.5 * micros, 2 * micros, false, "links"};
  }
  double bytes_per_us = 1e5;
};

class Reports : public ::testing::Test {
 protected:
  Reports() {
    inputs_.batch = 256;
    inputs_.ops = &rate_;
    inputs_.collectives = &links_;
    inputs_.steps = StepsOf([](int64_t batch) -> absl::StatusOr<graph::Graph> {
      std::string text = absl::StrCat("x0 = input f32[", batch, ",1024]\n");
      for (int i = 0; i < 8; ++i) {
        absl::StrAppend(&text, "w", i, " = param f32[1024,1024]; y", i, " = MatMul(x", i, ", w", i,
                        "); x", i + 1, " = Relu(y", i, ")\n");
      }
      auto forward = graph::ParseGraph(text + "output x8");
      if (!forward.ok()) return forward.status();
      return graph::BuildTrainingGraph(*forward,
                                       {.optimizer = {.kind = graph::OptimizerKind::kAdam}});
    });
  }
  StrategyReport Of(absl::string_view text, const ReportOptions& options = {}) {
    const auto plan = MakePlan(inputs_, *ParseStrategy(text));
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (!plan.ok()) return {};
    const auto report = ReportOf(*plan, options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.value_or(StrategyReport());
  }

  Rate rate_;
  Links links_;
  StrategyInputs inputs_;
};

TEST_F(Reports, PartsSumToTheStepAndIntervalsHoldIt) {
  inputs_.launch_us = 10;
  inputs_.bus_gbs = 16;
  for (const char* text : {"1 GPU", "dp4", "dp4-zero3", "tp2", "pp4-m8-1f1b", "dp2-tp2-pp2-m4"}) {
    const StrategyReport report = Of(text);
    EXPECT_NEAR(report.parts.sum(), report.step.median, 1e-6 * report.step.median) << text;
    EXPECT_LT(report.step.low, report.step.median) << text;
    EXPECT_GT(report.step.high, report.step.median) << text;
    double shown = report.parts.host + report.parts.data;
    for (const PlanInput& input : report.shown) shown += input.median;
    EXPECT_NEAR(shown, report.step.median, 1e-6 * report.step.median) << text;
    EXPECT_GE(report.parts.bubble, 0) << text;
    EXPECT_GE(report.parts.imbalance, 0) << text;
  }
}

TEST_F(Reports, OneGpuCommunicatesNothingAndRestsOnItsKernels) {
  const StrategyReport one = Of("1 GPU");
  EXPECT_EQ(one.parts.exposed_communication, 0);
  EXPECT_EQ(one.parts.bubble + one.parts.imbalance, 0);
  EXPECT_EQ(one.measured_share, 1);
  EXPECT_TRUE(one.step.in_hull);
  EXPECT_THAT(one.bottleneck, HasSubstr("most of it gemm"));
  const StrategyReport four = Of("dp4");
  EXPECT_LT(four.measured_share, 1);
  EXPECT_FALSE(four.step.in_hull);
  ASSERT_EQ(four.extrapolated.size(), 1u);
  EXPECT_EQ(four.extrapolated[0].what, "all_reduce of 4");
  EXPECT_EQ(four.extrapolated[0].source, "links");
}

TEST_F(Reports, TellWhatHurtsAndWhatWouldHelp) {
  links_.bytes_per_us = 1e3;
  EXPECT_THAT(Of("dp4").bottleneck, HasSubstr("most of it all_reduce of 4"));
  EXPECT_THAT(Of("dp4").relief, HasSubstr("larger batch"));
  links_.bytes_per_us = 1e7;
  EXPECT_THAT(Of("pp4-m1").bottleneck, HasSubstr("bubble"));
  EXPECT_THAT(Of("pp4-m1").relief, HasSubstr("more micro-batches"));
  inputs_.launch_us = 1e5;
  EXPECT_THAT(Of("1 GPU").bottleneck, HasSubstr("the host"));
}

TEST_F(Reports, CostAndHoursAreStepsTimesGpus) {
  const StrategyReport report = Of("dp4", {.steps = 1000, .price_per_gpu_hour = 2.5});
  EXPECT_NEAR(*report.hours, report.step.median * 1000 / 3600e6, 1e-9);
  EXPECT_NEAR(*report.cost, *report.hours * 4 * 2.5, 1e-9);
  EXPECT_FALSE(Of("dp4").hours.has_value());
}

TEST_F(Reports, CompareRanksThoseThatFitFirst) {
  const std::vector<Strategy> grid = StrategyGrid(4, inputs_.batch);
  auto all = CompareStrategies(inputs_, grid, {});
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_GE(all->ranking.size(), 8u);
  for (size_t i = 1; i < all->ranking.size(); ++i) {
    EXPECT_LE(all->ranking[i - 1].step.median, all->ranking[i].step.median);
  }
  EXPECT_GE(all->expected_regret, 0);
  EXPECT_LT(all->expected_regret, 1);
  EXPECT_EQ(ToJson(*all), ToJson(*CompareStrategies(inputs_, grid, {})));
  // With too little memory for the plain copy of all, a strategy that shares is first.
  double most = 0;
  for (const MemoryFit& fit : Of("dp4").memory) most = std::max(most, fit.total());
  const auto tight = CompareStrategies(inputs_, grid, {.memory_bytes = 0.7 * most});
  ASSERT_TRUE(tight.ok());
  EXPECT_TRUE(tight->ranking.front().fits);
  EXPECT_FALSE(tight->ranking.back().fits);
  EXPECT_THAT(tight->ranking.back().memory_text, HasSubstr("more than there is"));
}

TEST_F(Reports, RegretIsOfErrorsThatStrategiesDoNotShare) {
  const auto regret = [&](std::vector<Strategy> candidates) {
    return CompareStrategies(inputs_, candidates, {})->expected_regret;
  };
  EXPECT_EQ(regret({{.data = 4}}), 0);
  // The same kernels and collectives: nothing can turn the order.
  EXPECT_NEAR(regret({{.data = 4}, {.data = 4, .bucket_bytes = 1e12}}), 0, 1e-3);
  // The links may be half as fast as they are said to be, or twice.
  links_.bytes_per_us = 1e4;
  EXPECT_GT(regret({{.data = 4}, {.data = 2, .pipeline = 2, .micro_batches = 8}}), 1e-3);
}

TEST_F(Reports, AnOpWithoutAModelEndsTheComparisonAndABadSplitIsRefusedAlone) {
  const auto comparison = CompareStrategies(inputs_, {{.data = 4}, {.data = 3}}, {});
  ASSERT_TRUE(comparison.ok());
  ASSERT_EQ(comparison->refused.size(), 1u);
  EXPECT_THAT(comparison->refused[0].why, HasSubstr("not divided by 3"));
  rate_.knows_softmax = false;  // the loss
  EXPECT_EQ(CompareStrategies(inputs_, {{.data = 4}}, {}).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_FALSE(CompareStrategies(inputs_, {}, {}).ok());
}

TEST_F(Reports, EfficiencyIsAgainstOneGpu) {
  links_.bytes_per_us = 1e12;  // free
  const auto comparison = CompareStrategies(inputs_, {{.data = 2}}, {});
  ASSERT_TRUE(comparison.ok());
  const double efficiency = *comparison->ranking[0].efficiency;
  EXPECT_GT(efficiency, 0.5);
  EXPECT_LT(efficiency, 1);  // the optimizer does not shrink
}

TEST_F(Reports, AreWrittenForTerminalsBrowsersAndScripts) {
  std::vector<StrategyReport> reports;
  for (const int64_t gpus : {1, 2, 4, 8}) {
    const auto comparison = CompareStrategies(inputs_, {{.data = gpus}}, {.steps = 10});
    ASSERT_TRUE(comparison.ok());
    reports.push_back(comparison->ranking[0]);
  }
  EXPECT_THAT(StrategyTable(reports), HasSubstr("dp8"));
  const std::string text = ScalingText(reports, 72);
  EXPECT_THAT(text, HasSubstr("    8 GPUs"));
  EXPECT_THAT(text, HasSubstr("|"));
  for (const absl::string_view line : absl::StrSplit(text, '\n')) EXPECT_LE(line.size(), 73u);
  const std::string svg = ScalingSvg(reports, "a <model>");
  EXPECT_THAT(svg, HasSubstr("a &lt;model&gt;"));
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(ToJson(reports[2]), HasSubstr("\"strategy\": \"dp4\", \"gpus\": 4"));
  const std::vector<ScalingPoint> points = ScalingOf(reports);
  ASSERT_EQ(points.size(), 4u);
  EXPECT_NEAR(points[2].ideal, 4 * points[0].samples, 1e-6 * points[2].ideal);
  EXPECT_THAT(StrategyText(reports[3]), HasSubstr("confidence: "));
  EXPECT_EQ(ScalingText({}), "");
}

}  // namespace
}  // namespace ebb::perfmodel
