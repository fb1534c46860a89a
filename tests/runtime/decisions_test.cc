// Jobs that their evaluations steer end where runs without that would be at the same step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/testing/jobs.h"
#include "tests/testing/run_graph.h"

namespace ebb::testing {
namespace {

using runtime::Engine;
using runtime::JobInfo;
using runtime::JobResult;
using runtime::JobSpec;
using runtime::JobState;
using ::testing::HasSubstr;

constexpr int64_t kEvery = 2;

JobSpec Job(int64_t steps) {
  JobSpec spec =
      MakeJob({.batch = 50, .width = 16, .layers = 2, .steps = steps, .lr = 0.3, .validate = true});
  spec.evaluate.every_steps = kEvery;
  spec.val->rows.assign(spec.val->data->rows() > 40 ? 40 : 1, 0);
  for (size_t r = 0; r < spec.val->rows.size(); ++r) spec.val->rows[r] = static_cast<int64_t>(r);
  return spec;
}

struct Ran {
  JobInfo info;
  std::shared_ptr<const JobResult> result;
  std::vector<double> val_loss;
};

Ran Train(const JobSpec& spec) {
  const auto engine = MakeCheckedEngine({.memory = MiB(64)});
  const auto job = engine->Submit(spec);
  EXPECT_TRUE(job.ok()) << job.status();
  if (!job.ok()) return {};
  Ran ran{.info = WaitUntilFinal(*engine, *job)};
  EXPECT_EQ(ran.info.state, JobState::kSucceeded) << ran.info.message;
  ran.result = *engine->Result(*job);
  const auto points = engine->Metrics(*job, 0);
  for (const auto& point : *points) {
    if (point.name == "val/loss") ran.val_loss.push_back(point.value);
  }
  return ran;
}

void ExpectSame(const graph::TensorMap& a, const graph::TensorMap& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_EQ(tensor.data, b.at(name).data) << name;
}

TEST(Decisions, EarlyStoppingEndsAJobAsIfItsEndHadBeenKnown) {
  const Ran free = Train(Job(60));
  ASSERT_EQ(free.val_loss.size(), 30u);
  JobSpec spec = Job(60);
  // A loss that falls does not get better by this.
  spec.early = {.metric = {.name = "val/loss", .better = runtime::Better::kHigher}, .patience = 3};
  // Independently of who decides: the first evaluation that is the third in a row without a better.
  size_t last = 0, best = 0;
  for (size_t i = 1; i < free.val_loss.size() && last == 0; ++i) {
    if (free.val_loss[i] > free.val_loss[best]) best = i;
    if (i - best == 3) last = i;
  }
  ASSERT_GT(last, 0u) << "it was better all the time";
  const int64_t end = static_cast<int64_t>(last + 1) * kEvery;
  const Ran stopped = Train(spec);
  EXPECT_EQ(stopped.info.step, end);
  EXPECT_EQ(stopped.info.total_steps, end);
  EXPECT_THAT(stopped.info.message, HasSubstr("stopped early after step " + std::to_string(end)));
  EXPECT_EQ(stopped.val_loss.size(), last + 1) << "the last evaluation is not repeated";
  ExpectSame(stopped.result->weights, Train(Job(end)).result->weights);

  spec.keep = runtime::Keep::kBest;
  const int64_t at_best = static_cast<int64_t>(best + 1) * kEvery;
  const Ran kept = Train(spec);
  EXPECT_EQ(kept.info.step, end);
  EXPECT_THAT(kept.info.message,
              HasSubstr("its result is its state after step " + std::to_string(at_best)));
  const Ran then = Train(Job(at_best));
  ExpectSame(kept.result->weights, then.result->weights);
  ExpectSame(kept.result->slots, then.result->slots);
}

TEST(Decisions, BothTheBestStateAndTheLastAreKept) {
  JobSpec spec = Job(20);
  spec.early = {.metric = {.name = "val/loss", .better = runtime::Better::kHigher}, .patience = 3};
  spec.keep = runtime::Keep::kBest;
  const Ran best = Train(spec);
  spec.keep = runtime::Keep::kLast;
  const Ran last = Train(spec);
  spec.keep = runtime::Keep::kBestAndLast;
  const Ran both = Train(spec);
  ExpectSame(both.result->weights, best.result->weights);
  ExpectSame(both.result->slots, best.result->slots);
  ASSERT_NE(both.result->last, nullptr);
  ExpectSame(both.result->last->weights, last.result->weights);
  ExpectSame(both.result->last->slots, last.result->slots);
  EXPECT_EQ(best.result->last, nullptr);
  EXPECT_EQ(last.result->last, nullptr);
}

TEST(Decisions, DeviceTimeEndsAJobAfterTheStepsThatArePrepared) {
  const auto engine = MakeSimEngine(GiB(1));
  const auto ran = [&](std::optional<Micros> limit) {
    JobSpec spec = Job(400);
    spec.stop.device_time = limit;
    const auto job = engine->Submit(spec);
    EXPECT_TRUE(job.ok()) << job.status();
    const JobInfo info = WaitUntilFinal(*engine, *job);
    EXPECT_EQ(info.state, JobState::kSucceeded) << info.message;
    return info;
  };
  const JobInfo whole = ran(std::nullopt);
  EXPECT_EQ(whole.step, 400);
  const JobInfo part = ran(whole.elapsed / 4);
  EXPECT_GT(part.step, 50);
  EXPECT_LT(part.step, 300);
  EXPECT_EQ(part.step, part.total_steps);
  EXPECT_THAT(part.message, HasSubstr("of device time"));
  EXPECT_EQ(ran(whole.elapsed * 2).step, 400);
  JobSpec alone = Job(4);
  alone.stop = {.device_time = Micros(1000)};
  EXPECT_THAT(std::string(engine->Submit(alone).status().message()),
              HasSubstr("device_time goes with steps, epochs or samples"));
}

TEST(Decisions, APlateauLowersTheRateOfTheStepsThatFollow) {
  JobSpec spec = Job(20);
  spec.schedule.kind = runtime::ScheduleKind::kPlateau;
  spec.schedule.plateau = {.metric = {.name = "val/loss", .better = runtime::Better::kHigher},
                           .factor = 0.5,
                           .patience = 0,
                           .threshold = 0};
  const Ran ran = Train(spec);
  double rate = 0.3, best = -INFINITY;
  for (size_t i = 0; i + 1 < ran.val_loss.size(); ++i) {  // no step comes after the last
    if (ran.val_loss[i] <= best) rate /= 2;
    best = std::max(best, ran.val_loss[i]);
  }
  ASSERT_LT(rate, 0.3) << "there was no plateau";
  EXPECT_DOUBLE_EQ(ran.info.learning_rate, rate);
  // Up to the first fall it is the run without a plateau, and not from there on.
  const Ran free = Train(Job(20));
  EXPECT_EQ(ran.val_loss[0], free.val_loss[0]);
  EXPECT_NE(ran.val_loss.back(), free.val_loss.back());
}

TEST(Decisions, WatchingWhatIsNotThereIsRefusedAtSubmit) {
  const auto engine = MakeEngine({.memory = MiB(64)});
  JobSpec spec = Job(4);
  spec.early = {.metric = {.name = "val/mse"}, .patience = 1};
  EXPECT_THAT(engine->Submit(spec).status().message(), HasSubstr("not measured"));
  spec = Job(4);
  spec.early = {.patience = 1};
  spec.evaluate.every_steps = 5;
  EXPECT_THAT(engine->Submit(spec).status().message(),
              HasSubstr("ends after step 4 before the first of them, after step 5"));
  spec = Job(4);
  spec.schedule.kind = runtime::ScheduleKind::kPlateau;
  spec.schedule.plateau.min_lr = 1;
  EXPECT_THAT(engine->Submit(spec).status().message(), HasSubstr("schedule.plateau.min_lr is 1"));
}

TEST(Decisions, ANewRateUnderAScheduleSaysWhatBecomesOfIt) {
  const auto engine = MakeEngine({.memory = MiB(64)});
  const auto note_of = [&](JobSpec spec, double rate) {
    const auto job = engine->Submit(spec);
    EXPECT_TRUE(job.ok()) << job.status();
    EXPECT_TRUE(engine->Pause(*job).ok());
    std::string note;
    EXPECT_TRUE(engine->Update(*job, {.learning_rate = rate}, &note).ok());
    EXPECT_TRUE(engine->Cancel(*job).ok());
    return note;
  };
  JobSpec spec = Job(100000);
  EXPECT_EQ(note_of(spec, 0.1), "");
  spec.schedule.kind = runtime::ScheduleKind::kPlateau;
  spec.schedule.plateau = {.factor = 0.5, .patience = 1000, .min_lr = 0.01};
  EXPECT_EQ(note_of(spec, 0.1),
            "the learning rate is 0.1 from its next step, in place of 0.3; schedule.plateau "
            "multiplies it by 0.5 from there, down to its min_lr, 0.01");
  EXPECT_THAT(note_of(spec, 0.01), HasSubstr("lowers none that is not above its min_lr, 0.01"));
  spec.schedule = {.kind = runtime::ScheduleKind::kPoints, .points = {{0, 0.1}}};
  EXPECT_THAT(note_of(spec, 0.2), HasSubstr("schedule.points no longer counts"));
  spec.schedule = {.kind = runtime::ScheduleKind::kStep, .step_size = 1, .gamma = 1};
  EXPECT_THAT(note_of(spec, 0.2), HasSubstr("its next step's is 0.2"));
}

TEST(Decisions, ASimulatedDeviceSaysThatItHasNothingToDecideBy) {
  const auto engine = MakeSimEngine(GiB(1));
  JobSpec spec = Job(6);
  spec.early = {.patience = 1};
  spec.keep = runtime::Keep::kBest;
  const auto job = engine->Submit(spec);
  ASSERT_TRUE(job.ok()) << job.status();
  const JobInfo info = WaitUntilFinal(*engine, *job);
  EXPECT_EQ(info.state, JobState::kSucceeded) << info.message;
  EXPECT_EQ(info.step, 6);
  EXPECT_THAT(info.warnings, ::testing::Contains(HasSubstr("no values to decide by")));
}

TEST(Averages, AreThoseOfTheStatesAfterEachStep) {
  constexpr int kSteps = 5;
  constexpr double kDecay = 0.75;
  std::map<std::string, std::vector<double>> want;
  for (int steps = 1; steps <= kSteps; ++steps) {
    const Ran ran = Train(Job(steps));
    for (const auto& [name, tensor] : ran.result->weights) {
      const std::vector<double> now = ToDoubles(tensor);
      std::vector<double>& average = want[name];
      if (steps == 1) average = now;
      for (size_t i = 0; i < now.size(); ++i) {
        average[i] = kDecay * average[i] + (1 - kDecay) * now[i];
      }
    }
  }
  JobSpec spec = Job(kSteps);
  spec.ema_decay = kDecay;
  const Ran ran = Train(spec);
  ASSERT_EQ(ran.result->weights.size(), want.size());
  for (const auto& [name, tensor] : ran.result->weights) {
    const std::vector<double> got = ToDoubles(tensor);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[name][i], 1e-6) << name;
    EXPECT_EQ(ran.result->slots.count(name + "/ema"), 1u);
  }
}

TEST(Averages, AreWhatIsEvaluated) {
  JobSpec spec = Job(6);
  spec.ema_decay = 0.75;
  const Ran averaged = Train(spec);
  // A job that begins with the result and stays there.
  JobSpec still = Job(1);
  still.model.weights = std::make_shared<graph::TensorMap>(averaged.result->weights);
  still.model.reinit.clear();
  still.schedule.base_lr = 0;
  EXPECT_EQ(Train(still).val_loss.back(), averaged.val_loss.back());
  const Ran plain = Train(Job(6));
  EXPECT_NE(plain.val_loss.back(), averaged.val_loss.back());
  // Without a memory the average is the parameter, bit by bit.
  spec.ema_decay = 0;
  const Ran last = Train(spec);
  EXPECT_EQ(last.val_loss, plain.val_loss);
  ExpectSame(last.result->weights, plain.result->weights);
}

}  // namespace
}  // namespace ebb::testing
