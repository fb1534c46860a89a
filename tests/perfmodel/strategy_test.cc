#include "perfmodel/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "graph/training.h"
#include "perfmodel/simulate.h"

namespace ebb::perfmodel {
namespace {

using graph::Phase;
using ::testing::HasSubstr;

// 1 us for each 1000 flops or bytes.
class Rate : public OpPredictor {
 public:
  absl::StatusOr<Estimate> Predict(const Work& work) const override {
    const double micros = std::max(work.flops, work.bytes) / 1000;
    return Estimate{micros, 0.9 * micros, 1.1 * micros, true, "a rate"};
  }
};
// 1 us for each 1000 bytes over a link.
class Links : public CollectivePredictor {
 public:
  explicit Links(double us_per_kb = 1) : us_per_kb_(us_per_kb) {}
  absl::StatusOr<Estimate> Predict(const Collective& what) const override {
    const double micros = what.bytes * BusFactor(what.kind, what.ranks) / 1000 * us_per_kb_;
    return Estimate{micros, micros, micros, false, "links"};
  }

 private:
  double us_per_kb_;
};
const Rate kRate;

// `units` equal layers: 1 ms forward and 2 ms backward for a sample, 40 kB of parameters.
TrainingStep Layers(int64_t batch, int units, double crossing = 0, int64_t tensor = 1) {
  TrainingStep step{.batch = batch, .units = units};
  const auto add = [&](Phase phase, int unit, double micros) {
    StepOp op{.name = "op", .phase = phase, .unit = unit};
    op.work.flops = micros * 1000;
    if (phase == Phase::kUpdate) op.param = unit;
    if (phase != Phase::kUpdate && tensor > 1) op.reduce_bytes = 20e3;
    step.ops.push_back(op);
  };
  const auto samples = static_cast<double>(batch);
  for (int i = 0; i < units; ++i) add(Phase::kForward, i, 1000 * samples);
  for (int i = units; i-- > 0;) add(Phase::kBackward, i, 2000 * samples);
  for (int i = 0; i < units; ++i) {
    add(Phase::kUpdate, i, 10);
    step.params.push_back({.name = absl::StrCat("w", i),
                           .bytes = 40e3,
                           .state_bytes = 80e3,
                           .ready = 2 * units - 1 - i,
                           .unit = i,
                           .last_unit = i});
    step.saved_bytes.push_back(1e6 * samples);
    step.crossing_bytes.push_back(crossing * samples);
  }
  return step;
}

struct Made {
  Plan plan;
  Step step;
};

class Strategies : public ::testing::Test {
 protected:
  Made Run(const std::string& text, int64_t batch = 8, int units = 8) {
    const auto strategy = ParseStrategy(text);
    EXPECT_TRUE(strategy.ok()) << strategy.status();
    Strategy wanted = *strategy;
    wanted.bucket_bytes = bucket_bytes_;
    inputs_.batch = batch;
    inputs_.steps = [units, this](int64_t samples, int64_t tensor) {
      TrainingStep step = Layers(samples, units, crossing_, tensor);
      if (shared_) step.params[0].last_unit = units - 1;
      return absl::StatusOr<TrainingStep>(std::move(step));
    };
    auto plan = MakePlan(inputs_, wanted);
    EXPECT_TRUE(plan.ok()) << text << ": " << plan.status();
    if (!plan.ok()) return {};
    auto step = Simulate(plan->programs);
    EXPECT_TRUE(step.ok()) << text << ": " << step.status();
    return {*std::move(plan), step.ok() ? *std::move(step) : Step{}};
  }

  Links links_;
  StrategyInputs inputs_ = {.ops = &kRate, .collectives = &links_};
  double crossing_ = 0;
  bool shared_ = false;  // the first parameter is the last layer's too
  double bucket_bytes_ = 25 << 20;
};

TEST_F(Strategies, AreWrittenAndReadAlike) {
  for (const char* text : {"1 GPU", "dp4", "tp2", "dp2-tp2-pp2-m8-1f1b", "pp4-m8-interleaved-v2",
                           "dp8-zero3", "dp2-pp2-m4-gpipe-zero1"}) {
    const auto strategy = ParseStrategy(text);
    ASSERT_TRUE(strategy.ok()) << strategy.status();
    EXPECT_EQ(ToString(*strategy), text);
  }
  EXPECT_THAT(std::string(ParseStrategy("dp4-zz").status().message()),
              HasSubstr("'zz' is none of"));
  EXPECT_FALSE(ParseStrategy("dp4-zero4").ok());
}

TEST_F(Strategies, ThatMakeNoSenseAreRefused) {
  const auto refused = [](const char* text, int64_t batch) {
    return std::string(CheckStrategy(*ParseStrategy(text), batch).message());
  };
  EXPECT_THAT(refused("dp3", 8), HasSubstr("a batch of 8 is not divided by 3 data ranks"));
  EXPECT_THAT(refused("dp2-m8", 8), HasSubstr("x 8 micro-batches"));
  EXPECT_THAT(refused("pp4-m6-interleaved-v2", 12), HasSubstr("micro-batches that they divide"));
  EXPECT_THAT(refused("pp4-m4-1f1b-v2", 8), HasSubstr("and no other"));
  EXPECT_THAT(refused("dp0", 8), HasSubstr("from 1 to"));
  inputs_.batch = 8;
  inputs_.steps = [](int64_t batch, int64_t) {
    return absl::StatusOr<TrainingStep>(Layers(batch, 2));
  };
  EXPECT_THAT(std::string(MakePlan(inputs_, *ParseStrategy("tp2")).status().message()),
              HasSubstr("no pair of linear layers that 2 tensor ranks divide"));
  EXPECT_THAT(std::string(MakePlan(inputs_, *ParseStrategy("pp4-m4")).status().message()),
              HasSubstr("a model of 2 forward ops is not cut in 4"));
}

TEST_F(Strategies, OneGpuCommunicatesNothing) {
  inputs_.collectives = nullptr;
  const Made one = Run("1 GPU");
  for (const Task& task : one.plan.programs[0].tasks) EXPECT_EQ(task.collective, -1);
  EXPECT_NEAR(one.step.micros, 8 * 8 * 3000 + 8 * 10, 1e-6);
  EXPECT_THAT(std::string(MakePlan(inputs_, *ParseStrategy("dp2")).status().message()),
              HasSubstr("need a fabric"));
}

TEST_F(Strategies, DataRanksHideTheirGradientsBehindBackward) {
  bucket_bytes_ = 40e3;  // one a layer: 40 us on the link, hidden but for the last
  const Made two = Run("dp2");
  EXPECT_NEAR(two.step.micros, 4 * 8 * 3000 + 8 * 10 + 40, 1e-6);
  EXPECT_NEAR(two.step.parts.exposed_communication, 40, 1e-6);
  bucket_bytes_ = 25 << 20;  // one bucket, final with the last gradient
  EXPECT_NEAR(Run("dp2").step.parts.exposed_communication, 8 * 40, 1e-6);
}

TEST_F(Strategies, BucketsGoInTheOrderOfReadyGradients) {
  bucket_bytes_ = 80e3;
  const auto buckets = GradientBuckets(Layers(1, 5), {0, 4}, bucket_bytes_);
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_THAT(buckets[0].params, ::testing::ElementsAre(4, 3));
  EXPECT_THAT(buckets[2].params, ::testing::ElementsAre(0));
  EXPECT_EQ(buckets[2].ready, 9);
}

TEST_F(Strategies, PipelinesOfEqualStagesHaveTheBubbleOfTheirLaw) {
  for (const int64_t p : {2, 4}) {
    for (const int64_t m : {1, 2, 4, 8}) {
      for (const char* schedule : {"gpipe", "1f1b"}) {
        const Made made = Run(absl::StrCat("pp", p, "-m", m, "-", schedule));
        // Additions of gradients and updates aside, which every stage does.
        double rest = 0;
        for (const Task& task : made.plan.programs[0].tasks) {
          if (task.name != "op" || task.micros < 100) {
            if (task.collective < 0) rest += task.micros;
          }
        }
        const double slots = static_cast<double>(m + p - 1);
        const double slot = 8.0 / double(m) * 8 / double(p) * 3000;
        EXPECT_NEAR(made.step.micros, slots * slot + rest, 0.03 * slot) << schedule << p << m;
        const double bubble = static_cast<double>(p - 1) / slots;
        EXPECT_NEAR(made.step.parts.waiting / made.step.micros, bubble, 0.01) << schedule << p << m;
      }
    }
  }
}

TEST_F(Strategies, InterleavingShrinksTheBubbleByItsChunks) {
  const double plain = Run("pp4-m8-1f1b").step.parts.waiting;
  const double two = Run("pp4-m8-interleaved-v2").step.parts.waiting;
  EXPECT_NEAR(two / plain, 0.5, 0.02);
}

TEST_F(Strategies, StagesSendWhatCrossesTheirCuts) {
  crossing_ = 100e3;  // 100 us for a sample
  const Made made = Run("pp2-m1");
  EXPECT_NEAR(made.step.micros, 8 * 8 * 3000 + 2 * 800 + 4 * 10, 1e-6);
  // The second stage does its updates meanwhile.
  EXPECT_NEAR(made.step.parts.exposed_communication, 2 * 800 - 40 / 2, 1e-6);
  EXPECT_EQ(made.plan.first_units, (std::vector<int>{0, 4}));
}

TEST_F(Strategies, LayersOfTwoStagesThatShareAParameterAddUpItsGradients) {
  shared_ = true;
  const Made made = Run("pp2-m4");
  std::vector<int> numbers;
  for (const RankProgram& program : made.plan.programs) {
    for (const Task& task : program.tasks) {
      if (task.name == "all_reduce w0") numbers.push_back(task.collective);
    }
  }
  ASSERT_EQ(numbers.size(), 2u);
  EXPECT_EQ(numbers[0], numbers[1]);
  EXPECT_DOUBLE_EQ(made.plan.memory[1].params, 5 * 40e3);
  const Made alone = Run("1 GPU");
  for (const Task& task : alone.plan.programs[0].tasks) EXPECT_EQ(task.collective, -1);
}

// Keeps what it was asked for.
class Asked : public CollectivePredictor {
 public:
  absl::StatusOr<Estimate> Predict(const Collective& what) const override {
    strides.insert({what.kind, what.ranks, what.stride});
    return Estimate{1, 1, 1, true, "asked"};
  }
  mutable std::set<std::tuple<CollectiveKind, int64_t, int64_t>> strides;
};

TEST_F(Strategies, SayHowFarApartTheRanksOfAGroupAre) {
  crossing_ = 10;
  Asked asked;
  inputs_.collectives = &asked;
  Run("dp4-tp2-pp2-m2-1f1b");
  EXPECT_THAT(asked.strides, ::testing::UnorderedElementsAre(
                                 std::tuple(CollectiveKind::kAllReduce, 2, 1),   // tensor
                                 std::tuple(CollectiveKind::kAllReduce, 4, 2),   // data
                                 std::tuple(CollectiveKind::kSendRecv, 2, 8)));  // stages
  inputs_.collectives = &links_;
}

TEST_F(Strategies, TensorRanksWaitForEachSum) {
  const Made made = Run("tp2");
  EXPECT_NEAR(made.step.parts.exposed_communication, 16 * 20, 1e-6);
}

TEST_F(Strategies, TheOrderOfRanksAndAllOfThemInsteadOfOneOfEachChangeNothing) {
  crossing_ = 10e3;
  bucket_bytes_ = 80e3;
  for (const char* text : {"dp2-pp2-m4-1f1b", "dp2-tp2", "dp2-zero3", "pp2-m4-interleaved-v2"}) {
    const Made made = Run(text);
    std::vector<RankProgram> ranks = AllRanks(made.plan);
    ASSERT_EQ(static_cast<int64_t>(ranks.size()), made.plan.strategy.ranks());
    const auto all = Simulate(ranks);
    ASSERT_TRUE(all.ok()) << text << all.status();
    EXPECT_NEAR(all->micros, made.step.micros, 1e-6) << text;
    std::reverse(ranks.begin(), ranks.end());
    const auto reversed = Simulate(ranks);
    ASSERT_TRUE(reversed.ok());
    EXPECT_EQ(all->micros, reversed->micros) << text;
    EXPECT_EQ(Run(text).step.micros, made.step.micros) << text;
  }
}

TEST_F(Strategies, PartsSumToTheStep) {
  crossing_ = 50e3;
  inputs_.launch_us = 5;
  for (const char* text :
       {"1 GPU", "dp4", "dp4-zero1", "dp4-zero3", "pp4-m8", "dp2-pp2-m2-gpipe"}) {
    const Made made = Run(text);
    for (const RankStep& rank : made.step.ranks) {
      EXPECT_NEAR(rank.parts.sum(), made.step.micros, 1e-6 * made.step.micros) << text;
    }
  }
}

TEST_F(Strategies, LargerModelsTakeLonger) {
  crossing_ = 50e3;
  for (const char* text : {"1 GPU", "dp4", "dp4-zero2-m2", "pp4-m8", "dp2-pp2-m2-gpipe"}) {
    double last = 0;
    for (const int units : {4, 8, 12, 16}) {
      const double now = Run(text, 8, units).step.micros;
      EXPECT_GT(now, last) << text;
      last = now;
    }
  }
}

TEST_F(Strategies, ZeroNeedsLessMemoryAtEachStage) {
  double last = 1e18;
  for (const char* text : {"dp4", "dp4-zero1", "dp4-zero2", "dp4-zero3"}) {
    bucket_bytes_ = 1e3;  // else buckets of a few layers hide what parameters save
    const MemoryFit fit = Run(text).plan.memory[0];
    EXPECT_LT(fit.params + fit.gradients + fit.optimizer, last) << text;
    last = fit.params + fit.gradients + fit.optimizer;
  }
  EXPECT_DOUBLE_EQ(last, (40e3 + 40e3 + 80e3) * 8 / 4);
}

TEST_F(Strategies, PipelinesKeepAsManyMicroBatchesAsTheirSchedule) {
  EXPECT_DOUBLE_EQ(Run("pp4-m8-gpipe").plan.memory[0].activations, 8 * 2e6);
  EXPECT_DOUBLE_EQ(Run("pp4-m8-1f1b").plan.memory[0].activations, 4 * 2e6);
  EXPECT_DOUBLE_EQ(Run("pp4-m8-1f1b").plan.memory[3].activations, 2e6);
}

TEST_F(Strategies, SayByHowMuchTheyDoNotFit) {
  MemoryFit fit;
  fit.params = 3.0 * (1 << 30);
  EXPECT_EQ(FitText(fit, 4.0 * (1 << 30)), "fits in 4.0 GiB, 1.0 GiB to spare");
  EXPECT_EQ(FitText(fit, 1.0 * (1 << 30)), "needs 3.0 GiB, 2.0 GiB more than there is");
}

TEST_F(Strategies, OfAGraphAreBoundAtTheRanksBatchAndItsUpdatesDoNotShrink) {
  inputs_.batch = 64;
  inputs_.steps = StepsOf([](int64_t batch) -> absl::StatusOr<graph::Graph> {
    auto forward = graph::ParseGraph(absl::StrCat(
        "x = input f32[", batch, ",32]; w = param f32[32,10]; y = MatMul(x, w); output y"));
    if (!forward.ok()) return forward.status();
    return graph::BuildTrainingGraph(*forward,
                                     {.optimizer = {.kind = graph::OptimizerKind::kAdam}});
  });
  const auto one = MakePlan(inputs_, {});
  const auto four = MakePlan(inputs_, {.data = 4});
  ASSERT_TRUE(one.ok() && four.ok()) << one.status() << four.status();
  const auto time_of = [](const Plan& plan, absl::string_view part) {
    double sum = 0;
    for (const PlanInput& input : plan.inputs) {
      if (input.what == part) sum += input.median;
    }
    return sum;
  };
  EXPECT_NEAR(time_of(*one, "gemm") / time_of(*four, "gemm"), 4, 0.01);
  EXPECT_GT(time_of(*one, "optimizer"), 0);
  EXPECT_EQ(time_of(*one, "optimizer"), time_of(*four, "optimizer"));
  EXPECT_GT(time_of(*four, "all_reduce of 4"), 0);
}

}  // namespace
}  // namespace ebb::perfmodel
