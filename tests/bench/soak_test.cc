// The soak finds nothing wrong with the engine, and what is wrong with a broken one.
#include "bench/soak.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_join.h"
#include "base/log.h"
#include "bench/soak_judge.h"
#include "device/forwarding_device.h"

namespace ebb::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Result {
  SoakReport report;
  std::string faulty;  // in words
};

template <class Broken = void>
Result RunSoak(SoakOptions options) {
  SetLogLevel(LogLevel::kWarning);
  if constexpr (!std::is_void_v<Broken>) {
    options.between = [](std::unique_ptr<device::Device> device) {
      return std::make_unique<Broken>(std::move(device));
    };
  }
  Result result;
  const auto report = Soak(
      options, [](int64_t) {},
      [&](int64_t number, const SoakMix& mix, const SoakOutcome& outcome) {
        if (outcome.faults.Sum() == 0) return;
        absl::StrAppend(&result.faulty, "mix ", number, "\n", ToText(mix),
                        absl::StrJoin(outcome.faulty, "\n"), "\n");
      });
  EXPECT_TRUE(report.ok()) << report.status();
  if (report.ok()) result.report = *report;
  return result;
}

// Mixes of seed 3 that take little time and in which all there is happens; more of them are
// `ebb-bench soak`'s.
TEST(Soak, FindsNothingWrongWithTheEngine) {
  std::map<std::string, int64_t> seen;
  for (const int64_t mix : {1, 2, 7, 9, 12, 17}) {
    const Result result = RunSoak({.seed = 3, .only = mix});
    EXPECT_EQ(result.report.faults.Sum(), 0) << result.faulty;
    EXPECT_EQ(result.report.mixes, 1);
    const SoakCounts& counts = result.report.counts;
    seen["jobs"] += counts.jobs;
    seen["steps"] += counts.steps;
    seen["evaluating"] += counts.evaluating;
    seen["queued"] += counts.queued;
    seen["updates"] += counts.updates;
    seen["pauses"] += counts.pauses;
    seen["cancels"] += counts.cancels;
    seen["cancels_in_step"] += counts.cancels_in_step;
    seen["failures"] += counts.failures;
    seen["overlapping"] += counts.overlapping;
    seen["deep"] += counts.deep;
  }
  for (const auto& [what, count] : seen) EXPECT_GT(count, 0) << what;
}

TEST(Soak, AMixIsTheSameEveryTime) {
  std::vector<std::string> logs;
  for (int run = 0; run < 2; ++run) {
    const auto report = Soak(
        {.seed = 3, .only = 1}, [](int64_t) {},
        [&](int64_t, const SoakMix&, const SoakOutcome& outcome) {
          logs.push_back(absl::StrJoin(outcome.log, "\n"));
        });
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->mixes, 1);
  }
  EXPECT_EQ(logs[0], logs[1]);
  EXPECT_THAT(logs[0], HasSubstr("submit job 1"));
}

// --- what a broken engine would do ---------------------------------------------------------------

class DropsWaits final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  void Wait(device::StreamId, device::EventId) override {}
};

class KeepsEvents final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  void Release(device::EventId event) override {
    if (event.value() % 100 != 7) ForwardingDevice::Release(event);
  }
};

// Keeps a granule of everything that is given back.
class KeepsMemory final : public device::ForwardingDevice, private memory::GranuleSource {
 public:
  using ForwardingDevice::ForwardingDevice;
  memory::GranuleSource& granules() override { return *this; }

 private:
  Bytes granule() const override { return inner().granules().granule(); }
  absl::StatusOr<char*> Reserve(Bytes bytes) override { return inner().granules().Reserve(bytes); }
  void Unreserve(char* base, Bytes bytes) override { inner().granules().Unreserve(base, bytes); }
  absl::Status Commit(char* base, Bytes offset, Bytes bytes) override {
    return inner().granules().Commit(base, offset, bytes);
  }
  void Decommit(char* base, Bytes offset, Bytes bytes) override {
    if (bytes > granule()) inner().granules().Decommit(base, offset, bytes - granule());
  }
};

class HidesFailures final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  device::EventState Query(device::EventId event) const override {
    device::EventState state = ForwardingDevice::Query(event);
    state.status = absl::OkStatus();
    return state;
  }
};

// The engine never learns of some launches.
class LosesEvents final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  device::EventState Query(device::EventId event) const override {
    if (event.value() % 100 == 60) return {};
    return ForwardingDevice::Query(event);
  }
};

TEST(Soak, SeesAWaitThatIsMissing) {
  const Result result = RunSoak<DropsWaits>({.seed = 3, .only = 17});
  EXPECT_GT(result.report.faults.races, 0);
  EXPECT_THAT(result.faulty, HasSubstr("nothing orders it after"));
}

TEST(Soak, SeesWhatIsNotGivenBack) {
  const Result events = RunSoak<KeepsEvents>({.seed = 3, .only = 2});
  EXPECT_EQ(events.report.faults.ledger_errors, 1);
  EXPECT_THAT(events.faulty, HasSubstr("not given back to the device: 0 streams, "));
  const Result memory = RunSoak<KeepsMemory>({.seed = 3, .only = 2});
  EXPECT_EQ(memory.report.faults.ledger_errors, 1);
  EXPECT_THAT(memory.faulty, HasSubstr("of memory"));
}

TEST(Soak, SeesAJobThatEndsOtherwiseThanItWasMadeTo) {
  const Result result = RunSoak<HidesFailures>({.seed = 3, .only = 9});
  EXPECT_EQ(result.report.faults.aborts, 1);
  EXPECT_THAT(result.faulty, HasSubstr("a launch of it failed"));
}

TEST(Soak, SeesThatNothingMovesAnyMore) {
  const Result result = RunSoak<LosesEvents>({.seed = 3, .only = 1});
  EXPECT_EQ(result.report.faults.deadlocks, 1);
  EXPECT_THAT(result.faulty, HasSubstr("nothing moves, but job j-"));
}

// --- what it judges by ---------------------------------------------------------------------------

TEST(SoakJudge, TheBoundOfAWaitIsTheSchedulers) {
  EXPECT_THAT(JudgeWait(scheduler::kAgeAfter + 3, 4), IsEmpty());
  EXPECT_THAT(JudgeWait(scheduler::kAgeAfter + 4, 4), HasSubstr("the bound is 35"));
}

TEST(SoakJudge, EveryByteOfTheLedgerCounts) {
  runtime::MemoryReport report{.pool = Bytes(100)};
  report.classes = {{"resident", Bytes(30)}, {"saved", Bytes(20)}, {"free", Bytes(50)}};
  report.lanes = {{.id = LaneId(0), .size = Bytes(60), .waiting = Bytes(10), .free = Bytes(30)}};
  report.lanes[0].bottom = {
      .job = JobId(1), .held = Bytes(20), .blocks = {{JobId(1), 0, Bytes(0), Bytes(20)}}};
  report.jobs = {{.job = JobId(1), .held = Bytes(20)}};
  EXPECT_THAT(JudgeLedger(report), IsEmpty());
  const auto broken = [&](const std::function<void(runtime::MemoryReport&)>& change) {
    runtime::MemoryReport copy = report;
    change(copy);
    return JudgeLedger(copy);
  };
  EXPECT_THAT(broken([](auto& r) { r.classes["free"] = Bytes(49); }), HasSubstr("sum to 99"));
  EXPECT_THAT(broken([](auto& r) { r.lanes[0].free = Bytes(31); }), HasSubstr("lane 0"));
  EXPECT_THAT(broken([](auto& r) { r.lanes[0].bottom.blocks.clear(); }), HasSubstr("blocks of 0"));
  EXPECT_THAT(broken([](auto& r) { r.jobs[0].held = Bytes(19); }), HasSubstr("jobs hold 19"));
  EXPECT_THAT(JudgeBaseline(report, report), HasSubstr("1 jobs and 1 lanes"));
  report.host = {{"staging", Bytes(1)}};
  EXPECT_THAT(JudgeBaseline({}, report), HasSubstr("free of the pool: 50"));
}

TEST(SoakJudge, OnlyPausedJobsAndThoseBehindThemMayRest) {
  const auto job = [](runtime::JobState state) {
    runtime::JobInfo info;
    info.id = JobId(1);
    info.state = state;
    return info;
  };
  using State = runtime::JobState;
  EXPECT_THAT(JudgeRest({job(State::kPaused), job(State::kQueued), job(State::kFailed)}),
              IsEmpty());
  EXPECT_THAT(JudgeRest({job(State::kQueued), job(State::kSucceeded)}), HasSubstr("is queued"));
  EXPECT_THAT(JudgeRest({job(State::kPaused), job(State::kRunning)}), HasSubstr("is running"));
}

TEST(SoakJudge, AnEndMustBeTheOneThatTheJobWasMadeFor) {
  runtime::JobInfo info;
  info.state = runtime::JobState::kSucceeded;
  info.step = info.total_steps = 7;
  EXPECT_THAT(JudgeEnd(info, {.steps = 7}), IsEmpty());
  EXPECT_THAT(JudgeEnd(info, {.steps = 8}), HasSubstr("should have succeeded after 8"));
  EXPECT_THAT(JudgeEnd(info, {.steps = 7, .cancelled = true}), HasSubstr("it was cancelled"));
  EXPECT_THAT(JudgeEnd(info, {.steps = 7, .failed = true}), HasSubstr("a launch of it failed"));
  info.state = runtime::JobState::kFailed;
  info.reason = runtime::EndReason::kInternal;
  EXPECT_THAT(JudgeEnd(info, {.steps = 7, .failed = true}), HasSubstr("failed"));
  info.reason = runtime::EndReason::kDevice;
  EXPECT_THAT(JudgeEnd(info, {.steps = 7, .failed = true}), IsEmpty());
  EXPECT_THAT(JudgeNewEnd(info, 40, info), HasSubstr("told to stop after 40"));
}

}  // namespace
}  // namespace ebb::bench
