// Jobs whose step is several batches: what they train, what they count, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/engine.h"
#include "tests/testing/jobs.h"

namespace ebb::testing {
namespace {

using runtime::JobInfo;
using runtime::JobSpec;
using runtime::JobState;
using ::testing::HasSubstr;

struct Trained {
  JobInfo info;
  std::shared_ptr<const runtime::JobResult> result;
};

Trained Train(const JobSpec& spec) {
  const auto engine = MakeCheckedEngine({.memory = MiB(64)});
  const auto job = engine->Submit(spec);
  EXPECT_TRUE(job.ok()) << job.status();
  if (!job.ok()) return {};
  Trained trained{.info = WaitUntilFinal(*engine, *job)};
  EXPECT_EQ(trained.info.state, JobState::kSucceeded) << trained.info.message;
  trained.result = *engine->Result(*job);
  return trained;
}

JobSpec Job(int64_t batch, int accumulate) {
  JobSpec spec = MakeJob({.batch = batch, .width = 32, .steps = 12, .validate = true});
  spec.accumulate = accumulate;
  return spec;
}

TEST(Accumulate, TrainsAModelWithoutStatisticsAsOneLargeBatchDoes) {
  const Trained whole = Train(Job(100, 1)), parts = Train(Job(25, 4));
  EXPECT_EQ(parts.info.step, 12);
  EXPECT_EQ(parts.info.batch_size, 25);
  for (const auto& [name, tensor] : whole.result->weights) {
    const auto want = tensor.as<float>(), got = parts.result->weights.at(name).as<float>();
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], 1e-4 + 1e-3 * std::abs(want[i])) << name << " " << i;
    }
  }
  for (const char* metric : {"train/loss", "train/accuracy", "val/loss", "val/accuracy"}) {
    EXPECT_NEAR(parts.info.last.at(metric), whole.info.last.at(metric), 1e-3) << metric;
  }
}

TEST(Accumulate, EpochsAndSamplesCountRowsAndStepsUpdates) {
  const auto steps = [](const runtime::StopSpec& stop) {
    JobSpec spec = Job(25, 4);  // of 500 rows
    spec.stop = stop;
    return Train(spec).info.step;
  };
  EXPECT_EQ(steps({.epochs = 2}), 10);
  EXPECT_EQ(steps({.samples = 700}), 7);
  EXPECT_EQ(steps({.steps = 3}), 3);
}

TEST(Accumulate, PlanningEndsWhenWhoAskedHasGone) {
  const auto engine = MakeEngine({.memory = MiB(64)});
  for (int patience = 0; patience < 4; ++patience) {  // stages, at the least
    int asked = 0;
    JobSpec spec = Job(25, 4);
    spec.abandoned = [&] { return asked++ >= patience; };
    const auto job = engine->Submit(std::move(spec));
    EXPECT_EQ(job.status().code(), absl::StatusCode::kCancelled) << patience;
    EXPECT_EQ(asked, patience + 1);
  }
  EXPECT_TRUE(engine->List().empty());
}

TEST(Accumulate, WhatCannotBeAStepIsRefused) {
  const auto engine = MakeEngine({.memory = MiB(64)});
  const auto refusal = [&](int64_t batch, int accumulate) {
    return std::string(engine->Submit(Job(batch, accumulate)).status().message());
  };
  EXPECT_THAT(refusal(25, 0), HasSubstr("accumulate is 0"));
  EXPECT_THAT(refusal(250, 3), HasSubstr("data.train"));
  EXPECT_THAT(refusal(1, 1000), HasSubstr("lower accumulate"));
}

}  // namespace
}  // namespace ebb::testing
