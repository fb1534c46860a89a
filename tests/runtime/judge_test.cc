#include "runtime/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ebb::runtime {
namespace {

using ::testing::HasSubstr;

JobSpec Watching(Better better) {
  JobSpec spec;
  spec.val.emplace();
  spec.early = {.metric = {.name = "val/loss", .better = better}, .patience = 2};
  return spec;
}

// The number of the evaluation after which it stops; -1: it goes on.
int StopsAfter(const JobSpec& spec, const std::vector<double>& values) {
  Judge judge(spec);
  for (size_t i = 0; i < values.size(); ++i) {
    if (judge.Decide({{"val/loss", values[i]}}).stop) return static_cast<int>(i);
  }
  return -1;
}

TEST(Judge, StopsWhenNothingHasBeenBetterForItsPatience) {
  EXPECT_EQ(StopsAfter(Watching(Better::kLower), {3, 2, 2, 1, 1, 1}), 5);
  EXPECT_EQ(StopsAfter(Watching(Better::kLower), {3, 4, 2, 3, 1, 2}), -1);
  EXPECT_EQ(StopsAfter(Watching(Better::kHigher), {3, 2, 4, 4, 4}), 4);
  EXPECT_EQ(StopsAfter(Watching(Better::kHigher), {-3, -4, -2, -2, -1}), -1);
}

TEST(Judge, ABetterValueExceedsMinDelta) {
  JobSpec spec = Watching(Better::kLower);
  spec.early->min_delta = 0.5;
  // 2.5 and 2.5 are better than 3 by 0.5, not by more.
  EXPECT_EQ(StopsAfter(spec, {3, 2.5, 2.5}), 2);
  EXPECT_EQ(StopsAfter(spec, {3, 2.6, 2.4, 1.8}), -1);
}

// torch.optim.lr_scheduler.ReduceLROnPlateau(factor=0.5, patience=1, threshold=0.1, cooldown=1,
// min_lr=0.2) from a rate of 1, walked through by hand.
TEST(Judge, LowersTheRateAsPyTorch) {
  JobSpec spec;
  spec.val.emplace();
  spec.schedule.kind = ScheduleKind::kPlateau;
  spec.schedule.plateau = {
      .factor = 0.5, .patience = 1, .threshold = 0.1, .cooldown = 1, .min_lr = 0.2};
  Judge judge(spec);
  const std::vector<std::pair<double, double>> value_and_rate = {
      {1.00, 1},                                              // the first is the best
      {0.95, 1},                                              // not below 0.9: one bad
      {0.92, 0.5},                                            // two bad, more than the patience
      {0.91, 0.5},                                            // cools down
      {0.91, 0.5},                                            // one bad
      {0.85, 0.5},                                            // the best
      {0.80, 0.5},                                            // not below 0.765
      {0.80, 0.25}, {0.80, 0.25}, {0.80, 0.25}, {0.80, 0.2},  // not below min_lr
      {0.80, 0.2},  {0.80, 0.2},  {0.80, 0.2},
  };
  double rate = 1;
  for (size_t i = 0; i < value_and_rate.size(); ++i) {
    const auto& [value, want] = value_and_rate[i];
    if (judge.Decide({{"val/loss", value}}).lower_rate) rate = judge.Lowered(rate);
    EXPECT_DOUBLE_EQ(rate, want) << "evaluation " << i;
  }
}

TEST(Judge, TheBestIsOfTheMetricThatEarlyStoppingWatches) {
  JobSpec spec = Watching(Better::kLower);
  spec.early->metric = {.name = "val/accuracy", .better = Better::kHigher};
  spec.keep = Keep::kBest;
  Judge judge(spec);
  std::vector<bool> best;
  for (const double accuracy : {0.5, 0.7, 0.7, 0.6, 0.8}) {
    best.push_back(judge.Decide({{"val/loss", 1}, {"val/accuracy", accuracy}}).best);
  }
  EXPECT_THAT(best, ::testing::ElementsAre(true, true, false, false, true));
  spec.early.reset();
  Judge by_loss(spec);
  EXPECT_TRUE(by_loss.Decide({{"val/loss", 1}}).best);
  EXPECT_FALSE(by_loss.Decide({{"val/loss", 1.5}}).best);
}

TEST(CheckEvaluationsCome, RefusesAnIntervalBeyondTheEnd) {
  const JobSpec early = Watching(Better::kLower);
  EXPECT_TRUE(CheckEvaluationsCome(early, 100, 100).ok());
  const absl::Status status = CheckEvaluationsCome(early, 101, 100);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("stop.early"), HasSubstr("after step 101"),
                             HasSubstr("a smaller evaluate.every")));
  JobSpec plateau;
  plateau.schedule.kind = ScheduleKind::kPlateau;
  EXPECT_THAT(std::string(CheckEvaluationsCome(plateau, 101, 100).message()),
              HasSubstr("schedule.plateau goes by evaluations"));
  EXPECT_TRUE(CheckEvaluationsCome(JobSpec(), 101, 100).ok());
}

TEST(CheckLeastRate, IsNotAboveTheFirst) {
  ScheduleSpec schedule{.kind = ScheduleKind::kPlateau, .base_lr = 0.1};
  schedule.plateau.min_lr = 0.1;
  EXPECT_TRUE(CheckLeastRate(schedule).ok());
  schedule.plateau.min_lr = 0.2;
  EXPECT_EQ(CheckLeastRate(schedule).message(),
            "schedule.plateau.min_lr is 0.2, above the optimizer's lr of 0.1, so that it never "
            "falls; lower min_lr, or raise optimizer's lr");
  schedule.kind = ScheduleKind::kCosine;
  EXPECT_TRUE(CheckLeastRate(schedule).ok());
  schedule.min_lr = 0.2;
  EXPECT_THAT(std::string(CheckLeastRate(schedule).message()), HasSubstr("schedule.cosine.min_lr"));
}

TEST(CheckDecisions, NamesWhatIsNotMeasuredAndWhatIsOutOfRange) {
  const auto message = [](const JobSpec& spec) {
    const absl::Status status = CheckDecisions(spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  JobSpec spec = Watching(Better::kLower);
  EXPECT_TRUE(CheckDecisions(spec).ok());
  EXPECT_TRUE(CheckDecisions(JobSpec()).ok());
  spec.metrics = {{graph::MetricKind::kTopK, 5}};
  spec.early->metric.name = "val/accuracy";
  EXPECT_THAT(message(spec), HasSubstr("not measured; there is val/loss, val/top5"));
  spec.early->metric.name = "val/top5";
  EXPECT_TRUE(CheckDecisions(spec).ok());
  spec.early->patience = 0;
  EXPECT_THAT(message(spec), HasSubstr("stop.early.patience"));
  spec.early->patience = 1;
  spec.early->min_delta = NAN;
  EXPECT_THAT(message(spec), HasSubstr("stop.early.min_delta"));
  spec.early.reset();
  spec.schedule.kind = ScheduleKind::kPlateau;
  for (const double factor : {0.0, 1.0, double{NAN}}) {
    spec.schedule.plateau.factor = factor;
    EXPECT_THAT(message(spec), HasSubstr("schedule.plateau.factor"));
  }
  spec.schedule.plateau = {};
  spec.val.reset();
  EXPECT_THAT(message(spec), HasSubstr("needs data.val"));
  spec.schedule = {};
  spec.keep = Keep::kBest;
  EXPECT_THAT(message(spec), HasSubstr("checkpoint.keep: best watches 'val/loss'"));
}

}  // namespace
}  // namespace ebb::runtime
