#include "scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "scheduler/profile.h"
#include "tests/memory/step_profiles.h"

namespace ebb::scheduler {
namespace {

using testing::HasSubstr;

StepProfile Profile(std::vector<int64_t> extent, std::vector<int64_t> held) {
  StepProfile profile;
  for (int64_t bytes : extent) profile.extent.push_back(Bytes(bytes));
  for (int64_t bytes : held) profile.held_after.push_back(Bytes(bytes));
  return profile;
}
// Rises to `peak` in two sub-models and falls in two.
StepProfile Hill(int64_t peak) {
  return Profile({peak / 2, peak, peak, peak / 2}, {peak / 2, peak, peak / 2, 0});
}
StepProfile Flat(int64_t peak) { return Profile({peak}, {0}); }

// Adds a job whose params are the defaults but for what `change` sets.
template <class Change>
void Add(Scheduler& scheduler, int64_t id, StepProfile profile, LaneId lane, Change change) {
  JobParams params;
  change(params);
  ASSERT_TRUE(scheduler.AddJob(JobId(id), {std::move(profile)}, params, lane).ok());
}
void Add(Scheduler& scheduler, int64_t id, StepProfile profile, LaneId lane) {
  Add(scheduler, id, std::move(profile), lane, [](JobParams&) {});
}

constexpr Policy kPolicies[] = {Policy::kFair, Policy::kFifo, Policy::kPriority, Policy::kShortest,
                                Policy::kEven};

std::vector<int64_t> JobsOf(const std::vector<Decision>& decisions) {
  std::vector<int64_t> jobs;
  for (const Decision& decision : decisions) jobs.push_back(decision.job.value());
  return jobs;
}

std::vector<Decision> Drain(Scheduler& scheduler) {
  std::vector<Decision> decisions;
  while (std::optional<Decision> decision = scheduler.Next()) decisions.push_back(*decision);
  scheduler.CheckInvariants();
  return decisions;
}

TEST(Scheduler, AStepRunsThroughItsSubModelsOnOneEnd) {
  Scheduler scheduler(Policy::kFifo);
  const LaneId lane = scheduler.AddLane(Bytes(100));
  Add(scheduler, 1, Hill(80), lane);
  EXPECT_FALSE(scheduler.Next());
  scheduler.Ready(JobId(1), 0);
  EXPECT_EQ(scheduler.StandingOf(JobId(1)), Standing::kWaiting);
  const std::vector<Decision> launches = Drain(scheduler);
  ASSERT_EQ(launches.size(), 4u);
  for (int s = 0; s < 4; ++s) {
    EXPECT_EQ(launches[s].sub_model, s);
    EXPECT_EQ(launches[s].end, End::kBottom);
    EXPECT_EQ(launches[s].first, s == 0);
    EXPECT_EQ(launches[s].last, s == 3);
    EXPECT_FALSE(launches[s].wait || launches[s].previous);
  }
  EXPECT_EQ(scheduler.StandingOf(JobId(1)), Standing::kIdle);
  EXPECT_FALSE(scheduler.lane(lane).Drained());
  scheduler.Finished(launches.back().seq, Micros(1));
  EXPECT_TRUE(scheduler.lane(lane).Drained());
}

TEST(Scheduler, TheFollowerRisesAsTheLeaderFalls) {
  Scheduler scheduler(Policy::kFifo);
  const LaneId lane = scheduler.AddLane(Bytes(100));
  Add(scheduler, 1, Hill(80), lane, [](JobParams& p) { p.max_in_flight = 3; });
  Add(scheduler, 2, Hill(80), lane);
  scheduler.Ready(JobId(1), 0);
  scheduler.Ready(JobId(2), 0);
  std::vector<Decision> launches = Drain(scheduler);
  // The leader at its peak leaves 20 bytes, then 60: the follower's first sub-model fits.
  EXPECT_EQ(JobsOf(launches), (std::vector<int64_t>{1, 1, 1, 2}));
  EXPECT_EQ(launches[3].end, End::kTop);
  EXPECT_EQ(launches[3].wait, launches[2].seq);  // 40 + 80 > 100
  EXPECT_EQ(scheduler.StandingOf(JobId(1)), Standing::kLeading);
  EXPECT_EQ(scheduler.StandingOf(JobId(2)), Standing::kFollowing);
  EXPECT_THAT(scheduler.Why(JobId(2)), HasSubstr("needs 80 B at the top end; j-1 leads and still "
                                                 "needs up to 40 B of 100 B"));
  EXPECT_THAT(scheduler.Why(JobId(1)), HasSubstr("3 of at most 3"));
  scheduler.Finished(launches[0].seq, Micros(1));
  launches = Drain(scheduler);
  EXPECT_EQ(JobsOf(launches), (std::vector<int64_t>{1, 2, 2, 2}));
  EXPECT_EQ(scheduler.lane(lane).Held(End::kTop), Bytes(0));
}

TEST(Scheduler, TheHeadOfTheQueueIsNotBypassed) {
  Scheduler scheduler(Policy::kFifo);
  const LaneId lane = scheduler.AddLane(Bytes(100));
  Add(scheduler, 1, Hill(80), lane, [](JobParams& p) { p.max_in_flight = 1; });
  Add(scheduler, 2, Flat(90), lane);
  Add(scheduler, 3, Flat(10), lane);
  for (int64_t id : {1, 2, 3}) scheduler.Ready(JobId(id), 0);
  EXPECT_EQ(JobsOf(Drain(scheduler)), std::vector<int64_t>{1});
  EXPECT_THAT(scheduler.Why(JobId(3)), HasSubstr("j-2 starts before it"));
  EXPECT_THAT(scheduler.Why(JobId(2)), HasSubstr("needs 90 B"));
}

TEST(Scheduler, AJobAtItsRunAheadLimitDoesNotHoldUpTheQueue) {
  Scheduler scheduler(Policy::kFair);
  const LaneId lane = scheduler.AddLane(Bytes(100));
  Add(scheduler, 1, Flat(10), lane, [](JobParams& p) { p.max_in_flight = 1; });
  Add(scheduler, 2, Flat(10), lane);
  scheduler.Ready(JobId(1), 0);
  EXPECT_EQ(JobsOf(Drain(scheduler)), std::vector<int64_t>{1});
  scheduler.Ready(JobId(1), 0);
  scheduler.Ready(JobId(2), 0);
  EXPECT_EQ(JobsOf(Drain(scheduler)), std::vector<int64_t>{2});
  EXPECT_EQ(scheduler.Overtaken(JobId(1)), 0);
}

TEST(Scheduler, AStepStartsOnAnotherEndOnlyWhenTheJobsLastLaunchIsComplete) {
  Scheduler scheduler(Policy::kFifo);
  const LaneId lane = scheduler.AddLane(Bytes(100));
  Add(scheduler, 1, Hill(40), lane, [](JobParams& p) { p.max_in_flight = 1; });
  Add(scheduler, 2, Flat(10), lane);
  Add(scheduler, 3, Hill(40), lane, [](JobParams& p) { p.max_in_flight = 1; });
  scheduler.Ready(JobId(1), 0);
  scheduler.Ready(JobId(2), 0);
  const std::vector<Decision> before = Drain(scheduler);
  ASSERT_EQ(JobsOf(before), (std::vector<int64_t>{1, 2}));
  ASSERT_EQ(before[1].end, End::kTop);
  // Job 1 goes, job 3 takes the top, so job 2 goes on at the bottom.
  scheduler.DropStep(JobId(1));
  scheduler.RemoveJob(JobId(1));
  scheduler.Ready(JobId(2), 0);
  std::vector<Decision> launches = Drain(scheduler);
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].end, End::kTop);  // both were free: it stays where it was
  EXPECT_FALSE(launches[0].previous);
  const LaunchSeq last = launches[0].seq;
  scheduler.CloseLane(lane);
  scheduler.Ready(JobId(2), 0);
  EXPECT_EQ(scheduler.StandingOf(JobId(2)), Standing::kPaused);
  EXPECT_TRUE(Drain(scheduler).empty());
  // On another stream it would only wait for its own last launch: it does not start there yet.
  const LaneId other = scheduler.AddLane(Bytes(50));
  ASSERT_TRUE(scheduler.MoveJob(JobId(2), other).ok());
  EXPECT_TRUE(Drain(scheduler).empty());
  EXPECT_EQ(scheduler.Why(JobId(2)), "its last step still executes");
  scheduler.Finished(before[1].seq, Micros(5));
  scheduler.Finished(last, Micros(5));
  launches = Drain(scheduler);
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].lane, other);
  EXPECT_FALSE(launches[0].previous);
  scheduler.OpenLane(lane);
  scheduler.Finished(launches[0].seq, Micros(5));
  ASSERT_TRUE(scheduler.MoveJob(JobId(2), lane).ok());
  scheduler.Ready(JobId(2), 0);
  launches = Drain(scheduler);
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_FALSE(launches[0].previous);
}

TEST(Scheduler, ADroppedStepPassesItsMemoryOnBehindAnEvent) {
  Scheduler scheduler(Policy::kFifo);
  const LaneId lane = scheduler.AddLane(Bytes(100));
  Add(scheduler, 1, Hill(80), lane, [](JobParams& p) { p.max_in_flight = 2; });
  Add(scheduler, 2, Flat(90), lane);
  scheduler.Ready(JobId(1), 0);
  scheduler.Ready(JobId(2), 0);
  const std::vector<Decision> before = Drain(scheduler);
  ASSERT_EQ(JobsOf(before), (std::vector<int64_t>{1, 1}));
  scheduler.DropStep(JobId(1));
  const std::vector<Decision> after = Drain(scheduler);
  ASSERT_EQ(JobsOf(after), std::vector<int64_t>{2});
  // On the other end, its launch waits for the dropped step's.
  EXPECT_TRUE(after[0].end == End::kBottom || after[0].wait == before[1].seq);
  scheduler.RemoveJob(JobId(1));
  for (const Decision& decision : before) scheduler.Finished(decision.seq, Micros(1));
  scheduler.Finished(after[0].seq, Micros(1));
  EXPECT_TRUE(scheduler.lane(lane).Drained());
}

TEST(Scheduler, JobsThatTakeTurnsAreNeverInFlightTogether) {
  Scheduler scheduler(Policy::kFifo);
  const LaneId lane = scheduler.AddLane(Bytes(100));
  Add(scheduler, 1, Flat(10), lane);
  Add(scheduler, 2, Flat(10), lane);
  scheduler.TakeTurns(JobId(1), JobId(2));
  scheduler.Ready(JobId(1), 0);
  scheduler.Ready(JobId(2), 0);
  // Enqueued one after the other, so that the device goes on without a gap.
  const std::vector<Decision> turns = Drain(scheduler);
  ASSERT_EQ(JobsOf(turns), (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(turns[0].after.empty());
  EXPECT_THAT(turns[1].after, testing::ElementsAre(turns[0].seq));
  scheduler.Finished(turns[0].seq, Micros(1));
  scheduler.Ready(JobId(1), 0);
  const std::vector<Decision> next = Drain(scheduler);
  ASSERT_EQ(JobsOf(next), std::vector<int64_t>{1});
  EXPECT_THAT(next[0].after, testing::ElementsAre(turns[1].seq));
  scheduler.RunTogether(JobId(1), JobId(2));
  scheduler.Finished(turns[1].seq, Micros(1));
  scheduler.Ready(JobId(2), 0);
  const std::vector<Decision> together = Drain(scheduler);
  ASSERT_EQ(together.size(), 1u);
  EXPECT_TRUE(together[0].after.empty());
}

TEST(Scheduler, AJobThatWaitsForItsTurnIsPassedByOthersAndSaysWhoseTurnItIs) {
  Scheduler scheduler(Policy::kFifo);
  const LaneId lane = scheduler.AddLane(Bytes(100));
  Add(scheduler, 1, Hill(40), lane, [](JobParams& p) { p.max_in_flight = 1; });
  Add(scheduler, 2, Flat(10), lane);
  Add(scheduler, 3, Flat(10), lane);
  scheduler.TakeTurns(JobId(1), JobId(2));
  for (int64_t id : {1, 2, 3}) scheduler.Ready(JobId(id), 0);
  EXPECT_EQ(JobsOf(Drain(scheduler)), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(scheduler.WhoseTurn(JobId(2)), JobId(1));
  EXPECT_EQ(scheduler.Why(JobId(2)), "takes turns with j-1");
  EXPECT_FALSE(scheduler.WhoseTurn(JobId(1)));
  EXPECT_EQ(scheduler.Overtaken(JobId(2)), 2);  // by both
  scheduler.RemoveJob(JobId(1));
  EXPECT_EQ(JobsOf(Drain(scheduler)), std::vector<int64_t>{2});
}

// The steps of jobs 1 and 2, each in a lane of its own, never end at the same time.
TEST(Scheduler, WhoTakesTurnsWithTwoThatRunTogetherGetsItsTurn) {
  for (const Policy policy : kPolicies) {
    Scheduler scheduler(policy);
    const auto one_at_a_time = [](JobParams& p) { p.max_in_flight = 1; };
    for (int64_t id : {1, 2, 3}) {
      Add(scheduler, id, Profile({10, 10, 10, 10}, {10, 10, 10, 0}), scheduler.AddLane(Bytes(100)),
          one_at_a_time);
    }
    scheduler.TakeTurns(JobId(3), JobId(1));
    scheduler.TakeTurns(JobId(3), JobId(2));
    std::map<int64_t, Decision> running;
    std::map<int64_t, int> steps;
    const auto go_on = [&] {
      for (const Decision& decision : Drain(scheduler)) {
        running[decision.job.value()] = decision;
        steps[decision.job.value()] += decision.last;
        if (decision.last) scheduler.Ready(decision.job, 0);
      }
    };
    const auto finish = [&](int64_t id) {
      if (!running.contains(id)) return;
      scheduler.Finished(running.at(id).seq, Micros(10));
      running.erase(id);
      go_on();
    };
    scheduler.Ready(JobId(1), 0);
    go_on();
    finish(1);
    finish(1);
    for (int64_t id : {2, 3}) scheduler.Ready(JobId(id), 0);
    go_on();
    for (int i = 0; i < 400; ++i) {
      for (int64_t id : {1, 2, 3}) {
        finish(id);
        EXPECT_LE(scheduler.Overtaken(JobId(id)), kAgeAfter + 2);
        const bool three = scheduler.StandingOf(JobId(3)) == Standing::kLeading;
        const auto waits = [&](int64_t other) {
          return scheduler.StandingOf(JobId(other)) != Standing::kLeading;
        };
        EXPECT_TRUE(!three || (waits(1) && waits(2)));
      }
    }
    EXPECT_GT(steps[1], 30) << Name(policy);
    EXPECT_GT(steps[2], 30) << Name(policy);
    // First come, first served but for `fair`, where it gets as much as the others.
    EXPECT_GT(steps[3], policy == Policy::kFair || policy == Policy::kEven ? 30 : 5)
        << Name(policy);
  }
}

TEST(Scheduler, RefusesWhatCannotRunByName) {
  Scheduler scheduler(Policy::kFifo);
  const LaneId lane = scheduler.AddLane(Bytes(100));
  EXPECT_THAT(std::string(scheduler.AddJob(JobId(1), {Hill(101)}, JobParams(), lane).message()),
              HasSubstr("its peak of 101 B does not fit lane 0 of 100 B"));
  const auto code = [&](std::vector<StepProfile> profiles, JobParams params = {}) {
    return scheduler.AddJob(JobId(1), std::move(profiles), params, lane).code();
  };
  EXPECT_EQ(code({}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({Profile({10, 5}, {8, 0})}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({Profile({10}, {11})}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({Profile({10}, {5})}), absl::StatusCode::kInvalidArgument);
  JobParams params;
  params.max_in_flight = 0;
  EXPECT_EQ(code({Flat(1)}, params), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({Flat(1)}), absl::StatusCode::kOk);
  EXPECT_EQ(code({Flat(1)}), absl::StatusCode::kAlreadyExists);
}

TEST(Scheduler, AJobTooLargeForAShrunkLaneWaitsAlone) {
  Scheduler scheduler(Policy::kFifo);
  const LaneId lane = scheduler.AddLane(Bytes(100));
  Add(scheduler, 1, Flat(80), lane);
  Add(scheduler, 2, Flat(20), lane);
  scheduler.ResizeLane(lane, Bytes(50));
  scheduler.Ready(JobId(1), 0);
  scheduler.Ready(JobId(2), 0);
  EXPECT_EQ(JobsOf(Drain(scheduler)), std::vector<int64_t>{2});
  EXPECT_THAT(scheduler.Why(JobId(1)), HasSubstr("its peak of 80 B does not fit its lane of 50 B"));
}

TEST(Scheduler, LanesTakeTurns) {
  Scheduler scheduler(Policy::kFifo);
  for (int64_t id = 0; id < 3; ++id) {
    Add(scheduler, id, Hill(80), scheduler.AddLane(Bytes(100)));
    scheduler.Ready(JobId(id), 0);
  }
  EXPECT_EQ(JobsOf(Drain(scheduler)), (std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
}

// Jobs of one sub-model that are ready again at once and run one at a time: counts what each gets.
class Rivals {
 public:
  explicit Rivals(Policy policy) : scheduler_(policy), lane_(scheduler_.AddLane(Bytes(100))) {}
  void Add(int64_t id, int64_t duration, double weight = 1, int priority = 0) {
    ebb::scheduler::Add(scheduler_, id, Flat(100), lane_, [&](JobParams& params) {
      params.weight = weight;
      params.priority = priority;
      params.max_in_flight = 1;
    });
    duration_[id] = duration;
    scheduler_.Ready(JobId(id), 0);
  }
  void Run(int steps) {
    for (int i = 0; i < steps; ++i) {
      const std::optional<Decision> decision = scheduler_.Next();
      ASSERT_TRUE(decision);
      const int64_t id = decision->job.value();
      service[id] += duration_[id];
      ++starts[id];
      scheduler_.Finished(decision->seq, Micros(duration_[id]));
      for (const auto& [other, unused] : duration_) {
        most_overtaken = std::max(most_overtaken, scheduler_.Overtaken(JobId(other)));
      }
      scheduler_.Ready(JobId(id), 0);
    }
    EXPECT_EQ(scheduler_.MostOvertaken(), most_overtaken);
  }
  std::map<int64_t, int64_t> service, starts;
  int64_t most_overtaken = 0;

 private:
  Scheduler scheduler_;
  LaneId lane_;
  std::map<int64_t, int64_t> duration_;
};

// Two whose steps do not fit beside each other, one after the other's steps.
TEST(Policies, WhoWouldBeInTheWayOfOneThatComesFirstIsHeldBack) {
  for (const Policy policy : kPolicies) {
    SCOPED_TRACE(std::string(Name(policy)));
    Scheduler scheduler(policy);
    const LaneId lane = scheduler.AddLane(Bytes(100));
    for (const int64_t id : {1, 2}) {
      Add(scheduler, id, Profile({60, 40, 40, 40}, {40, 40, 40, 0}), lane, [&](JobParams& p) {
        p.priority = id == 1;
        p.max_in_flight = 1;
      });
    }
    const auto step = [&](int64_t id, Micros sub_model) {
      scheduler.Ready(JobId(id), 0);
      while (const auto decision = scheduler.Next()) scheduler.Finished(decision->seq, sub_model);
    };
    for (int i = 0; i < 2; ++i) step(2, Micros(1'000));
    step(1, Micros(10));
    scheduler.Ready(JobId(1), 0);
    const auto peak = scheduler.Next();
    ASSERT_TRUE(peak && peak->job == JobId(1));
    scheduler.Finished(peak->seq, Micros(10));
    scheduler.Ready(JobId(2), 0);
    const bool holds =
        policy == Policy::kPriority || policy == Policy::kShortest || policy == Policy::kEven;
    int started = 0;
    for (const Decision& decision : Drain(scheduler)) started += decision.job == JobId(2);
    EXPECT_EQ(started == 0, holds);
    if (holds) {
      EXPECT_THAT(scheduler.Why(JobId(2)), HasSubstr("held back"));
    }
  }
}

TEST(Policies, FifoTakesTurns) {
  Rivals rivals(Policy::kFifo);
  for (int64_t id : {1, 2, 3}) rivals.Add(id, id * 10);
  rivals.Run(300);
  for (int64_t id : {1, 2, 3}) EXPECT_EQ(rivals.starts[id], 100);
  EXPECT_EQ(rivals.most_overtaken, 2);
}

TEST(Policies, FairSharesServiceByWeight) {
  Rivals rivals(Policy::kFair);
  rivals.Add(1, 10, 1);
  rivals.Add(2, 30, 1);
  rivals.Add(3, 20, 2);
  rivals.Run(2000);
  EXPECT_NEAR(static_cast<double>(rivals.service[1]) / rivals.service[2], 1.0, 0.02);
  EXPECT_NEAR(static_cast<double>(rivals.service[3]) / rivals.service[2], 2.0, 0.04);
}

TEST(Policies, FairGivesNoCreditForTimeSpentIdle) {
  Rivals rivals(Policy::kFair);
  rivals.Add(1, 10);
  rivals.Add(2, 10);
  rivals.Run(1000);
  rivals.Add(3, 10);  // comes late
  rivals.Run(300);
  EXPECT_NEAR(rivals.starts[3], 100, 1);
}

TEST(Policies, NoneStarvesAJob) {
  for (Policy policy : kPolicies) {
    SCOPED_TRACE(std::string(Name(policy)));
    Rivals rivals(policy);
    rivals.Add(1, 1'000'000, 1, 0);  // long, light and unimportant
    rivals.Add(2, 1, 100, 5);
    rivals.Add(3, 1, 100, 5);
    rivals.Add(4, 2, 100, 3);
    rivals.Run(1000);
    EXPECT_LE(rivals.most_overtaken, kAgeAfter + 3);
    EXPECT_GE(rivals.starts[1], 1000 / (kAgeAfter + 4));
    if (policy == Policy::kPriority || policy == Policy::kShortest) {
      EXPECT_GE(rivals.most_overtaken, kAgeAfter);  // ageing is what saved it
      EXPECT_GT(rivals.starts[2], 10 * rivals.starts[1]);
    }
  }
}

TEST(Policies, HaveNames) {
  for (Policy policy : kPolicies) {
    EXPECT_EQ(PolicyFromName(Name(policy)), policy);
  }
  EXPECT_FALSE(PolicyFromName("greedy"));
}

TEST(Profile, FollowsThePlanAtTheCuts) {
  const std::vector<memory::LiveRange> ranges = {
      {Bytes(10), 0, 5}, {Bytes(20), 1, 4}, {Bytes(30), 2, 3}};
  const memory::StackPlan plan = memory::PlanStack(ranges, 6, Bytes(1));
  const StepProfile profile = ProfileOf(plan, ranges, Bytes(1), {1, 3, 5});
  EXPECT_EQ(profile.extent, (std::vector<Bytes>{Bytes(30), Bytes(60), Bytes(30)}));
  EXPECT_EQ(profile.held_after, (std::vector<Bytes>{Bytes(30), Bytes(30), Bytes(0)}));
  EXPECT_EQ(profile.Peak(), Bytes(60));
}

}  // namespace
}  // namespace ebb::scheduler
