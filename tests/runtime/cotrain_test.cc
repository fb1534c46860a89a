// The promise of the whole system: a job's bits are the same solo and co-trained, whatever its
// neighbours, arrivals, pauses and cancels. Solo runs are plain; co-trained ones are held against
// races, and what they release is poisoned.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/testing/jobs.h"

namespace ebb::testing {
namespace {

using runtime::JobState;

std::vector<JobOptions> Subjects() {
  std::vector<JobOptions> subjects =
      FourKinds({.batch = 48, .steps = 40, .seed = 11, .validate = true}, 96, 12);
  subjects[0].also = [](runtime::JobSpec* spec) {
    using graph::OptimizerKind;
    spec->groups = {{"w1", {.kind = OptimizerKind::kRowwiseAdagrad}},
                    {"w2", {.kind = OptimizerKind::kRmsProp, .momentum = 0.5}},
                    {"b*", {.kind = OptimizerKind::kAdagrad, .epsilon = 1e-10}}};
    spec->loss.class_weights = std::vector<double>(10, 0.5);
    spec->metrics.push_back({graph::MetricKind::kMacroF1});
    spec->metrics.push_back({graph::MetricKind::kPerplexity});
  };
  subjects[1].also = [](runtime::JobSpec* spec) {
    spec->clip.norm = 0.5;  // updates wait for all gradients
    spec->schedule.kind = runtime::ScheduleKind::kPlateau;
    spec->schedule.plateau = {.factor = 0.5, .patience = 0, .threshold = 0.3};
    spec->evaluate.every_steps = 5;
  };
  subjects[2].also = [](runtime::JobSpec* spec) {
    spec->ema_decay = 0.9;
    spec->keep = runtime::Keep::kBest;
    spec->early = {.metric = {.name = "val/accuracy", .better = runtime::Better::kHigher},
                   .patience = 2};
    spec->evaluate.every_steps = 3;
  };
  subjects[3].batch = 24;
  subjects[3].also = [](runtime::JobSpec* spec) { spec->accumulate = 2; };  // of batch statistics
  return subjects;
}

TEST(CoTraining, TwoRunsAloneGiveTheSameBits) {
  for (const JobOptions& subject : Subjects())
    EXPECT_EQ(SoloFingerprint(subject), SoloFingerprint(subject));
}

TEST(CoTraining, GivesTheBitsOfASoloRunUnderRandomNeighboursPausesAndCancels) {
  std::vector<std::string> solo;
  for (const JobOptions& subject : Subjects()) solo.push_back(SoloFingerprint(subject));
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    // Tight enough that steps share the lane; another run-ahead and lane count each time.
    const auto engine =
        MakeCheckedEngine({.memory = KiB(1536) + KiB(512) * static_cast<int64_t>(seed),
                           .max_lanes = 1 + static_cast<int>(seed % 2),
                           .max_in_flight = 1 + static_cast<int>(random() % 6)});
    std::vector<JobId> subjects, neighbours;
    for (const JobOptions& subject : Subjects()) {
      const auto job = engine->Submit(MakeJob(subject));
      ASSERT_TRUE(job.ok()) << job.status();
      subjects.push_back(*job);
      const auto neighbour =
          engine->Submit(MakeJob({.net = random() % 2 ? Net::kMlp : Net::kCnn,
                                  .batch = static_cast<int64_t>(16 + random() % 48),
                                  .width = static_cast<int64_t>(8 + random() % 24),
                                  .steps = 1000000,
                                  .seed = seed}));
      ASSERT_TRUE(neighbour.ok()) << neighbour.status();
      neighbours.push_back(*neighbour);
      WaitForStep(*engine, subjects[random() % subjects.size()],
                  static_cast<int64_t>(random() % 10));
      const JobId paused = subjects[random() % subjects.size()];
      if (engine->Pause(paused).ok()) {
        WaitForStep(*engine, neighbours[random() % neighbours.size()],
                    static_cast<int64_t>(random() % 10));
        // A job that had done its last step when it was paused ends all the same.
        const absl::Status resumed = engine->Resume(paused);
        ASSERT_TRUE(resumed.ok() || engine->Get(paused)->state == JobState::kSucceeded) << resumed;
      }
      if (random() % 2 == 0) {
        ASSERT_TRUE(engine->Cancel(neighbours[random() % neighbours.size()]).ok());
      }
    }
    for (size_t s = 0; s < subjects.size(); ++s) {
      EXPECT_EQ(WaitUntilFinal(*engine, subjects[s]).state, JobState::kSucceeded);
      EXPECT_EQ(Fingerprint(*engine, subjects[s]), solo[s]);
    }
  }
}

}  // namespace
}  // namespace ebb::testing
