#include "runtime/co_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>

namespace ebb::runtime {
namespace {

using State = CoRunPair::State;
using ::testing::HasSubstr;

constexpr int kParts = 4;  // sub-models of a step

// A device on which equal jobs run: those that take turns one after the other, others at once and
// slower. A job has a stream of its own and takes its next step as soon as it may.
class Bench {
 public:
  // The progress that so many jobs make together.
  using Together = std::function<double(size_t running)>;

  Bench(CoRunMode mode, Together together) : run_(mode, 8), together_(std::move(together)) {}

  CoRun& run() { return run_; }
  void Add(int64_t job) {
    run_.Add(JobId(job), kParts);
    jobs_[job] = {};
    Look();
  }
  void Remove(int64_t job) {
    run_.Remove(JobId(job));
    jobs_.erase(job);
    std::erase_if(turns_,
                  [&](const auto& pair) { return pair.first == job || pair.second == job; });
    Look();
  }
  bool Turns(int64_t a, int64_t b) const { return turns_.contains(std::minmax(a, b)); }
  int64_t steps(int64_t job) const { return jobs_.at(job).steps; }
  // Relative noise of the time that a launch takes.
  void set_noise(double noise) { noise_ = noise; }
  void set_together(Together together) { together_ = std::move(together); }
  // From the end of its step on there is nothing for the job to do, or there is again.
  void Starve(int64_t job) {
    while (jobs_.at(job).part > 0) Go();
    jobs_.at(job).starves = true;
    run_.Starves(JobId(job));
  }
  void Sate(int64_t job) { jobs_.at(job).starves = false; }

  // One sub-model of every job that may run: whose step is under way, or who does not take turns
  // with any of those, in the order in which they had their last turn.
  void Go() {
    std::vector<int64_t> order, running;
    for (const auto& [id, job] : jobs_) {
      if (!job.starves) order.push_back(id);
    }
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const Job &x = jobs_[a], &y = jobs_[b];
      return (x.part > 0) != (y.part > 0) ? x.part > 0 : x.steps < y.steps;
    });
    for (const int64_t id : order) {
      const bool waits = std::any_of(running.begin(), running.end(),
                                     [&](int64_t other) { return Turns(id, other); });
      if (jobs_[id].part > 0 || !waits) running.push_back(id);
    }
    const double slow = static_cast<double>(running.size()) / together_(running.size());
    Micros last = now_;
    for (const int64_t id : running) {
      const Job& job = jobs_[id];
      run_.Launched(static_cast<int>(id),
                    {.job = JobId(id), .sub_model = job.part, .last = job.part + 1 == kParts},
                    now_);
    }
    for (const int64_t id : running) {
      Job& job = jobs_[id];
      std::normal_distribution<double> noise(1, noise_);
      const double micros = 10'000 * slow * (noise_ > 0 ? std::max(0.5, noise(random_)) : 1);
      const Micros end = now_ + Micros(static_cast<int64_t>(micros));
      run_.Completed(static_cast<int>(id), now_, end);
      last = std::max(last, end);
      job.part = (job.part + 1) % kParts;
      job.steps += job.part == 0;
    }
    now_ = last;
    Look();
  }
  // Until every job has made so many steps more.
  void GoOn(int64_t steps) {
    std::map<int64_t, int64_t> until;
    for (const auto& [id, job] : jobs_) until[id] = job.steps + steps;
    const auto done = [&] {
      return std::all_of(jobs_.begin(), jobs_.end(),
                         [&](const auto& job) { return job.second.steps >= until[job.first]; });
    };
    while (!done()) Go();
  }
  void Look() {
    for (const CoRun::Change& change : run_.TakeChanges()) {
      const std::pair<int64_t, int64_t> pair(change.a.value(), change.b.value());
      EXPECT_NE(turns_.contains(pair), change.turns);
      if (change.turns) {
        turns_.insert(pair);
      } else {
        turns_.erase(pair);
      }
    }
  }
  size_t turns() const { return turns_.size(); }

 private:
  struct Job {
    int part = 0;
    int64_t steps = 0;
    bool starves = false;
  };
  CoRun run_;
  Together together_;
  double noise_ = 0;
  std::mt19937_64 random_{7};
  Micros now_;
  std::map<int64_t, Job> jobs_;
  std::set<std::pair<int64_t, int64_t>> turns_;
};

Bench::Together Always(double progress) {
  return [=](size_t running) { return running > 1 ? progress : 1; };
}

struct PairOf : Bench {
  explicit PairOf(double progress, CoRunMode mode = CoRunMode::kAuto)
      : Bench(mode, Always(progress)) {
    Add(1);
    Add(2);
  }
};
struct LosingPair : PairOf {
  LosingPair() : PairOf(0.9) {
    GoOn(12);
    EXPECT_TRUE(Turns(1, 2));
  }
};

TEST(CoRun, AJobThatMostlyWaitsForDataIsJudgedByTheTimeInWhichItDoesNot) {
  for (const double progress : {0.97, 1.1}) {
    PairOf bench(progress);
    bench.GoOn(3);
    EXPECT_FALSE(bench.Turns(1, 2)) << "both are known";
    for (int step = 0; step < 20; ++step) {
      bench.Starve(2);
      for (int i = 0; i < 12 * kParts; ++i) bench.Go();
      bench.Sate(2);
      bench.Go();
    }
    EXPECT_EQ(bench.Turns(1, 2), progress < 1);
    EXPECT_NEAR(bench.run().SoloStep(JobId(1))->count(), 10'000 * kParts, 1);
  }
}

TEST(CoRun, BothTakeTurnsUntilTheSpeedOfEachAloneIsKnown) {
  PairOf bench(1.4);
  EXPECT_TRUE(bench.Turns(1, 2));
  EXPECT_EQ(bench.run().PairsOf(JobId(1))[0].state, State::kMeasuringAlone);
  EXPECT_THAT(bench.run().Words(JobId(1), JobId(2)), HasSubstr("alone is being measured"));
  bench.GoOn(2);
  EXPECT_FALSE(bench.Turns(1, 2));
  EXPECT_EQ(bench.run().SoloStep(JobId(1)), Micros(40'000));
  EXPECT_EQ(bench.run().PairsOf(JobId(1))[0].state, State::kMeasuringTogether);
}

TEST(CoRun, APairThatGainsStaysTogether) {
  for (const double progress : {1.002, 1.4, 1.9}) {
    PairOf bench(progress);
    bench.GoOn(2);
    for (int i = 0; i < 500; ++i) {
      bench.Go();
      ASSERT_FALSE(bench.Turns(1, 2)) << progress;
    }
    const CoRunPair pair = bench.run().PairsOf(JobId(2))[0];
    EXPECT_EQ(pair.other, JobId(1));
    EXPECT_EQ(pair.state, State::kTogether);
    EXPECT_NEAR(pair.own + pair.others, progress, 1e-3);
    EXPECT_EQ(pair.tries, 0);
  }
}

TEST(CoRun, APairThatLosesTakesTurnsAndSaysByHowMuch) {
  PairOf bench(0.94);
  bench.GoOn(12);
  EXPECT_TRUE(bench.Turns(1, 2));
  const CoRunPair pair = bench.run().PairsOf(JobId(1))[0];
  EXPECT_EQ(pair.state, State::kTurns);
  EXPECT_NEAR(pair.own, 0.47, 1e-3);
  EXPECT_NEAR(pair.others, 0.47, 1e-3);
  EXPECT_EQ(pair.tries, 1);
  EXPECT_GT(pair.retry_in, 0);
  EXPECT_EQ(bench.run().Words(JobId(2), JobId(1)), "together 0.940 of their speed alone");
}

TEST(CoRun, AfterEveryLossItWaitsTwiceAsLong) {
  PairOf bench(0.9);
  bench.GoOn(2);
  std::vector<int64_t> waits;  // steps of both
  int64_t lost_at = 0;
  bool turns = false;
  while (waits.size() < 4) {
    bench.Go();
    if (bench.Turns(1, 2) == turns) continue;
    turns = !turns;
    const int64_t steps = bench.steps(1) + bench.steps(2);
    if (turns) {
      lost_at = steps;
    } else {
      waits.push_back(steps - lost_at);
    }
  }
  // What is under way when the time has come does not count.
  for (size_t i = 0; i < waits.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(waits[i]), static_cast<double>(64 << i), 3);
  }
}

TEST(CoRun, APairThatHasLostIsTriedAgainWhenSomethingChanges) {
  {
    LosingPair bench;
    bench.run().Retry(JobId(2));
    bench.Look();
    EXPECT_FALSE(bench.Turns(1, 2));
    EXPECT_EQ(bench.run().PairsOf(JobId(1))[0].tries, 0);
    bench.GoOn(12);
    EXPECT_TRUE(bench.Turns(1, 2));
  }
  {
    LosingPair bench;
    bench.Add(3);  // it is not known yet; the others are
    EXPECT_FALSE(bench.Turns(1, 2));
    EXPECT_TRUE(bench.Turns(1, 3));
    EXPECT_TRUE(bench.Turns(2, 3));
    bench.Remove(3);
    EXPECT_EQ(bench.turns(), 0u);
  }
  {
    LosingPair bench;
    bench.run().Renew(JobId(1), kParts);
    bench.Look();
    EXPECT_TRUE(bench.Turns(1, 2));
    EXPECT_EQ(bench.run().PairsOf(JobId(1))[0].state, State::kMeasuringAlone);
    bench.GoOn(3);
    EXPECT_FALSE(bench.Turns(1, 2));
  }
}

TEST(CoRun, ALosingPairThatHasComeToGainStaysTogetherFromTheNextTryOn) {
  LosingPair bench;
  bench.set_together(Always(1.1));
  bench.GoOn(40);
  EXPECT_FALSE(bench.Turns(1, 2));
  EXPECT_EQ(bench.run().PairsOf(JobId(1))[0].state, State::kTogether);
}

TEST(CoRun, NoiseDoesNotDecide) {
  for (const double progress : {0.9, 1.15}) {
    PairOf bench(progress);
    bench.set_noise(0.1);
    bench.GoOn(20);
    int turns = 0;
    for (int i = 0; i < 4000; ++i) {
      bench.Go();
      turns += bench.Turns(1, 2);
    }
    if (progress < 1) {
      EXPECT_GT(turns, 3200);
    } else {
      EXPECT_LT(turns, 400);
    }
  }
}

// More than two at once lose, two gain.
TEST(CoRun, OfACrowdThatLosesHalfTakesTurns) {
  Bench bench(CoRunMode::kAuto, [](size_t running) {
    return running > 2 ? 0.95 : running == 2 ? 1.1 : 1;
  });
  for (int64_t job : {1, 2, 3, 4}) bench.Add(job);
  EXPECT_EQ(bench.turns(), 6u);
  bench.GoOn(2);
  EXPECT_EQ(bench.turns(), 0u);
  bench.GoOn(10);
  EXPECT_EQ(bench.turns(), 2u);
  ASSERT_TRUE(bench.run().Crowd().has_value());
  EXPECT_NEAR(*bench.run().Crowd(), 0.95, 1e-3);
  int in_turns = 0;
  for (const CoRunPair& pair : bench.run().PairsOf(JobId(1))) {
    in_turns += pair.state == State::kTurns;
    if (pair.state != State::kTurns) continue;
    EXPECT_FALSE(pair.measured);
    EXPECT_THAT(bench.run().Words(JobId(1), pair.other), HasSubstr("all together 0.950"));
  }
  EXPECT_EQ(in_turns, 1);
}

TEST(CoRun, ACrowdThatGainsStaysTogether) {
  Bench bench(CoRunMode::kAuto, [](size_t running) { return 0.5 + 0.5 * double(running); });
  for (int64_t job : {1, 2, 3, 4}) bench.Add(job);
  bench.GoOn(2);
  for (int i = 0; i < 500; ++i) {
    bench.Go();
    ASSERT_EQ(bench.turns(), 0u);
  }
}

TEST(CoRun, TheOtherModesDecideNothing) {
  PairOf never(1.5, CoRunMode::kNever);
  never.GoOn(50);
  EXPECT_TRUE(never.Turns(1, 2));
  PairOf always(0.8, CoRunMode::kAlways);
  EXPECT_FALSE(always.Turns(1, 2));
  always.GoOn(50);
  EXPECT_FALSE(always.Turns(1, 2));
}

TEST(CoRun, AnEvaluationThatWasNeverMeasuredCountsForNothing) {
  PairOf bench(1.3);
  bench.GoOn(20);
  const CoRunPair before = bench.run().PairsOf(JobId(1))[0];
  Micros now(1'000'000'000);
  for (int i = 0; i < 100; ++i, now += Micros(50'000)) {
    bench.run().Launched(1, {.job = JobId(1), .program = 1}, now);
    bench.run().Launched(2, {.job = JobId(2), .sub_model = 0}, now);
    bench.run().Completed(1, now, now + Micros(50'000));
    bench.run().Completed(2, now, now + Micros(50'000));
  }
  const CoRunPair after = bench.run().PairsOf(JobId(1))[0];
  EXPECT_EQ(after.state, State::kTogether);
  EXPECT_EQ(after.own, before.own);
}

// What is copied for a job's turn while another one executes is not time of its own.
TEST(CoRun, ATurnBeginsWhenTheOtherOnesEnds) {
  CoRun run(CoRunMode::kAuto, 2);
  run.Add(JobId(1), 1);
  run.Add(JobId(2), 1);
  run.TakeChanges();
  Micros now;
  for (int i = 0; i < 3; ++i, now += Micros(30'000)) {
    run.Launched(0, {.job = JobId(1), .last = true}, now);
    run.Launched(1, {.job = JobId(2), .last = true}, now);
    run.Completed(0, now, now + Micros(10'000));
    run.Completed(1, now + Micros(2'000), now + Micros(30'000));
  }
  EXPECT_EQ(run.SoloStep(JobId(1)), Micros(10'000));
  EXPECT_EQ(run.SoloStep(JobId(2)), Micros(20'000));
  EXPECT_EQ(run.TakeChanges().size(), 1u);
}

}  // namespace
}  // namespace ebb::runtime
