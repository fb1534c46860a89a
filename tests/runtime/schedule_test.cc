#include <gtest/gtest.h>

#include "runtime/job.h"
#include "runtime/steps.h"

namespace ebb::runtime {
namespace {

TEST(LearningRate, ConstantStaysAtItsBase) {
  EXPECT_DOUBLE_EQ(LearningRate({.base_lr = 0.5}, 7, 100), 0.5);
}

TEST(LearningRate, StepMultipliesByGammaEveryStepSize) {
  const ScheduleSpec step{.kind = ScheduleKind::kStep, .base_lr = 1, .step_size = 10, .gamma = 0.1};
  EXPECT_DOUBLE_EQ(LearningRate(step, 9, 100), 1);
  EXPECT_DOUBLE_EQ(LearningRate(step, 10, 100), 0.1);
  EXPECT_NEAR(LearningRate(step, 25, 100), 0.01, 1e-15);
}

// torch.optim.lr_scheduler.CosineAnnealingLR(T_max=100), base 1, eta_min 0.1, at t = 0, 25, 50,
// 100.
TEST(LearningRate, CosineFollowsPyTorch) {
  const ScheduleSpec cosine{.kind = ScheduleKind::kCosine, .base_lr = 1, .min_lr = 0.1};
  EXPECT_DOUBLE_EQ(LearningRate(cosine, 0, 100), 1);
  EXPECT_NEAR(LearningRate(cosine, 25, 100), 0.868198051533946, 1e-12);
  EXPECT_NEAR(LearningRate(cosine, 50, 100), 0.55, 1e-12);
  EXPECT_NEAR(LearningRate(cosine, 100, 100), 0.1, 1e-12);
}

// torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=100, pct_start=0.3) at its ends and
// peak.
TEST(LearningRate, OneCycleRisesToTheBaseAndFallsFarBelowItsStart) {
  const ScheduleSpec cycle{.kind = ScheduleKind::kOneCycle, .base_lr = 1};
  EXPECT_NEAR(LearningRate(cycle, 0, 100), 0.04, 1e-12);
  EXPECT_NEAR(LearningRate(cycle, 29, 100), 1, 1e-12);
  EXPECT_NEAR(LearningRate(cycle, 99, 100), 0.04 / 1e4, 1e-12);
}

TEST(LearningRate, WarmUpRisesLinearlyToTheSchedule) {
  const ScheduleSpec warm{.base_lr = 2, .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(LearningRate(warm, 0, 100), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(warm, 3, 100), 2);
  EXPECT_DOUBLE_EQ(LearningRate(warm, 4, 100), 2);
}

TEST(LearningRate, PointsInterpolateAsAsked) {
  ScheduleSpec points{.kind = ScheduleKind::kPoints, .points = {{0, 0}, {100, 1}, {200, 0.5}}};
  EXPECT_DOUBLE_EQ(LearningRate(points, 50, 1000), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(points, 500, 1000), 0.5);
  points.interpolation = Interpolation::kHold;
  EXPECT_DOUBLE_EQ(LearningRate(points, 150, 1000), 1);
  points.interpolation = Interpolation::kCosine;
  EXPECT_NEAR(LearningRate(points, 150, 1000), 0.75, 1e-12);
}

TEST(TotalSteps, TakesTheFirstRuleThatIsReached) {
  EXPECT_EQ(TotalSteps({.steps = 10, .epochs = 2.0}, 8, 4), 10);
  EXPECT_EQ(TotalSteps({.steps = 100, .epochs = 2.0}, 8, 4), 16);
  EXPECT_EQ(TotalSteps({.epochs = 0.5}, 9, 4), 5);
  EXPECT_EQ(TotalSteps({.samples = 9}, 8, 4), 3);
}

TEST(EndInWords, SaysWhereAJobEndsThatIsPastItsEnd) {
  using runtime::EndInWords;
  EXPECT_EQ(EndInWords(20, 20, 12), "");
  EXPECT_EQ(EndInWords(14, 14, 12), "");
  EXPECT_EQ(EndInWords(5, 14, 12), "it ends at its step 14: 12 are done, the others prepared");
  EXPECT_EQ(EndInWords(13, 14, 12), "it ends at its step 14: 12 are done, the others prepared");
  EXPECT_EQ(EndInWords(5, 12, 12), "it ends at its step 12, which is done already");
  EXPECT_EQ(EndInWords(12, 12, 12), "it ends at its step 12, which is done already");
}

std::string Walk(StepSequence sequence) {
  std::string walk;
  while (const auto item = sequence.Next()) {
    walk += item->kind == StepKind::kTrain ? "t" : "v";
    if (item->last_of_epoch || item->last_of_eval) walk += ".";
  }
  return walk;
}

TEST(StepSequence, EvaluatesAfterEveryEpochAndAtTheEnd) {
  EXPECT_EQ(
      Walk(StepSequence(
          {.batches_per_epoch = 3, .eval_batches = 2, .total_steps = 7, .eval_every_epochs = 1})),
      "ttt.vv.ttt.vv.t.vv.");
}

TEST(StepSequence, WithoutValidationItOnlyTrains) {
  EXPECT_EQ(Walk(StepSequence({.batches_per_epoch = 2, .total_steps = 3, .eval_every_epochs = 1})),
            "tt.t.");
}

TEST(StepSequence, EvaluatesEveryFewSteps) {
  EXPECT_EQ(
      Walk(StepSequence(
          {.batches_per_epoch = 100, .eval_batches = 1, .total_steps = 4, .eval_every_steps = 2})),
      "ttv.tt.v.");
}

TEST(StepSequence, WithoutDataItCountsStepsAndNoEpochs) {
  StepSequence sequence({.batches_per_epoch = 0, .total_steps = 3});
  EXPECT_EQ(Walk(sequence), "ttt") << "no epoch ends";
  EXPECT_EQ(sequence.shape().Epochs(2), 0);
  for (int64_t i = 0; i < 3; ++i) {
    const auto item = sequence.Next();
    ASSERT_TRUE(item);
    EXPECT_EQ(item->epoch, 0);
    EXPECT_EQ(item->batch, i);
  }
}

TEST(StepSequence, WaitsAfterAnEvaluationThatDecides) {
  StepSequence sequence({.batches_per_epoch = 2,
                         .eval_batches = 2,
                         .total_steps = 6,
                         .eval_every_epochs = 1,
                         .evaluations_decide = true});
  EXPECT_EQ(Walk(sequence), "tt.vv.");
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(sequence.Next());
  EXPECT_FALSE(sequence.Next());
  StepSequence ended = sequence;
  sequence.Go();
  EXPECT_EQ(sequence.Next()->step, 2);
  ended.SetTotalSteps(2);
  ended.Go();
  EXPECT_FALSE(ended.Next()) << "it is not evaluated again";
}

TEST(StepSequence, AnEarlierEndStillEvaluates) {
  StepSequence sequence(
      {.batches_per_epoch = 10, .eval_batches = 1, .total_steps = 100, .eval_every_epochs = 1});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(sequence.Next());
  sequence.SetTotalSteps(2);  // 4 have been handed out: that is the end now
  EXPECT_EQ(Walk(sequence), "v.");
}

}  // namespace
}  // namespace ebb::runtime
