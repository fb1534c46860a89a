#include "runtime/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "tests/testing/jobs.h"

namespace ebb::testing {
namespace {

using runtime::EndReason;
using runtime::Engine;
using runtime::JobInfo;
using runtime::JobState;
using ::testing::HasSubstr;
using ::testing::Not;

double MetricAt(const Engine& engine, JobId job, const std::string& name, bool first) {
  double value = -1;
  const auto points = engine.Metrics(job, 0);
  for (const auto& point : *points) {
    if (point.name != name) continue;
    value = point.value;
    if (first) break;
  }
  return value;
}

void ExpectIdle(const Engine& engine) {
  const runtime::MemoryReport memory = engine.Memory();
  EXPECT_EQ(memory.classes.at("free"), memory.pool);
  EXPECT_TRUE(memory.jobs.empty());
}

TEST(Engine, TrainsAnMlpAndACnnWithBothOptimizers) {
  const auto engine = MakeCheckedEngine({.memory = MiB(64)});
  for (const Net net : {Net::kMlp, Net::kCnn}) {
    for (const Optim optim : {Optim::kSgd, Optim::kAdam}) {
      const auto job = engine->Submit(MakeJob({.net = net,
                                               .optim = optim,
                                               .width = net == Net::kMlp ? 64 : 8,
                                               .steps = 60,
                                               .validate = true}));
      ASSERT_TRUE(job.ok()) << job.status();
      const JobInfo info = WaitUntilFinal(*engine, *job);
      EXPECT_EQ(info.state, JobState::kSucceeded) << info.message;
      EXPECT_EQ(info.step, 60);
      EXPECT_GT(MetricAt(*engine, *job, "train/loss", true), 1.0);
      EXPECT_LT(MetricAt(*engine, *job, "train/loss", false), 0.5);
      EXPECT_GT(MetricAt(*engine, *job, "val/accuracy", false), 0.9);
    }
  }
  ExpectIdle(*engine);
}

TEST(Engine, ReportsAMetricPointForEveryStepAndEpoch) {
  const auto engine = MakeCheckedEngine({.memory = MiB(64)});
  const auto job = engine->Submit(MakeJob({.batch = 50, .steps = 25, .validate = true}));
  ASSERT_TRUE(job.ok()) << job.status();
  WaitUntilFinal(*engine, *job);
  std::map<std::string, int> count;
  const auto points = engine->Metrics(*job, 0);
  for (const auto& point : *points) ++count[point.name];
  EXPECT_EQ(count["train/loss"], 25);
  EXPECT_EQ(count["train/accuracy"], 25);
  EXPECT_EQ(count["epoch/accuracy"], 3);  // 500 rows: two whole epochs of 10 steps, and the rest
  EXPECT_EQ(count["val/loss"], 3);
}

TEST(Engine, AJobThatCanNeverFitIsRefusedWithItsBytes) {
  const auto engine = MakeCheckedEngine({.memory = MiB(1)});
  const auto job = engine->Submit(MakeJob({.batch = 256, .width = 4096}));
  ASSERT_EQ(job.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(job.status().message(), HasSubstr("at most 1.0 MiB of the pool"));
  EXPECT_TRUE(engine->List().empty());
}

TEST(Engine, MemoryMaxOfAJobIsKept) {
  const auto engine = MakeCheckedEngine({.memory = MiB(64)});
  runtime::JobSpec spec = MakeJob({.batch = 256, .width = 512});
  spec.memory_max = KiB(512);
  EXPECT_THAT(engine->Submit(spec).status().message(), HasSubstr("memory_max"));
}

TEST(Engine, LabelsOutOfRangeAreRefusedAtSubmit) {
  const auto engine = MakeCheckedEngine({.memory = MiB(64)});
  runtime::JobSpec spec = MakeJob({});
  std::map<std::string, graph::HostTensor> fields = spec.train.data->fields();
  fields["label"].as<int64_t>()[123] = 10;
  spec.train.data = *data::DataSet::Create(fields);
  const absl::Status status = engine->Submit(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("data.train"));
  EXPECT_THAT(status.message(), HasSubstr("123"));
}

TEST(Engine, ANanEndsItsJobAndNoOther) {
  const auto engine = MakeCheckedEngine({.memory = MiB(64)});
  const auto good = engine->Submit(MakeJob({.steps = 200}));
  const auto bad = engine->Submit(MakeJob({.steps = 2000, .lr = 1e30}));
  ASSERT_TRUE(good.ok() && bad.ok());
  const JobInfo bad_info = WaitUntilFinal(*engine, *bad);
  EXPECT_EQ(bad_info.state, JobState::kFailed);
  EXPECT_EQ(bad_info.reason, EndReason::kNan);
  EXPECT_THAT(bad_info.message, HasSubstr("not finite"));
  EXPECT_EQ(WaitUntilFinal(*engine, *good).state, JobState::kSucceeded);
  EXPECT_EQ(engine->Result(*bad).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Engine, PauseHoldsAJobAtAStepUntilItIsResumed) {
  const auto engine = MakeCheckedEngine({.memory = MiB(64)});
  const auto job = engine->Submit(MakeJob({.steps = 3000}));
  ASSERT_TRUE(job.ok());
  WaitForStep(*engine, *job, 5);
  ASSERT_TRUE(engine->Pause(*job).ok());
  EXPECT_EQ(engine->Get(*job)->state, JobState::kPaused);
  // A second job runs to its end meanwhile; the first one's launches have long completed by then.
  const auto other = engine->Submit(MakeJob({.steps = 50}));
  WaitUntilFinal(*engine, *other);
  const int64_t step = engine->Get(*job)->step;
  EXPECT_LT(step, 3000);
  const auto third = engine->Submit(MakeJob({.steps = 50}));
  WaitUntilFinal(*engine, *third);
  EXPECT_EQ(engine->Get(*job)->step, step);
  ASSERT_TRUE(engine->Resume(*job).ok());
  EXPECT_EQ(WaitUntilFinal(*engine, *job).state, JobState::kSucceeded);
}

TEST(Engine, UpdateMovesTheEndAndTheLearningRate) {
  const auto engine = MakeCheckedEngine({.memory = MiB(64)});
  const auto job = engine->Submit(MakeJob({.steps = 1000000}));
  ASSERT_TRUE(job.ok());
  WaitForStep(*engine, *job, 5);
  ASSERT_TRUE(engine->Update(*job, {.learning_rate = 1e-4}).ok());
  ASSERT_TRUE(engine->Update(*job, {.stop = runtime::StopSpec{.steps = 10}}).ok());
  const JobInfo info = WaitUntilFinal(*engine, *job);
  EXPECT_EQ(info.state, JobState::kSucceeded);
  EXPECT_LT(info.step, 1000000);
  EXPECT_TRUE(engine->Result(*job).ok());
  EXPECT_EQ(engine->Update(*job, {.weight = 2}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(engine->Update(JobId(99), {}).code(), absl::StatusCode::kNotFound);
}

TEST(Engine, AnEndThatIsPastIsAnsweredWithTheStepAtWhichTheJobEnds) {
  const auto engine = MakeCheckedEngine({.memory = MiB(64)});
  const auto job = engine->Submit(MakeJob({.steps = 1000000}));
  ASSERT_TRUE(job.ok());
  WaitForStep(*engine, *job, 20);
  ASSERT_TRUE(engine->Pause(*job).ok());
  ASSERT_TRUE(engine->Update(*job, {.stop = runtime::StopSpec{.steps = 900000}}).ok());
  EXPECT_EQ(engine->Get(*job)->message, "");
  ASSERT_TRUE(engine->Update(*job, {.stop = runtime::StopSpec{.steps = 5}}).ok());
  const JobInfo then = *engine->Get(*job);
  EXPECT_GE(then.total_steps, 20);
  EXPECT_THAT(then.message,
              ::testing::StartsWith(absl::StrCat("it ends at its step ", then.total_steps, ": ")));
  ASSERT_TRUE(engine->Update(*job, {.weight = 2}).ok());
  EXPECT_EQ(engine->Get(*job)->message, then.message);
  ASSERT_TRUE(engine->Resume(*job).ok());
  const JobInfo info = WaitUntilFinal(*engine, *job);
  EXPECT_EQ(info.state, JobState::kSucceeded);
  EXPECT_EQ(info.step, then.total_steps);
  EXPECT_EQ(info.message, then.message);  // whoever asks when it has ended is told too
}

TEST(Engine, TheLedgerSumsToThePoolWhileJobsShareALane) {
  const auto engine = MakeCheckedEngine({.memory = MiB(4)});
  std::vector<JobId> jobs;
  for (int j = 0; j < 4; ++j) {
    const auto job = engine->Submit(MakeJob({.net = Net::kCnn,
                                             .batch = 64,
                                             .width = 16,
                                             .steps = 60,
                                             .seed = static_cast<uint64_t>(j)}));
    ASSERT_TRUE(job.ok()) << job.status();
    jobs.push_back(*job);
  }
  bool all_final = false;
  while (!all_final) {
    const runtime::MemoryReport memory = engine->Memory();
    Bytes sum;
    for (const auto& [name, bytes] : memory.classes) sum += bytes;
    ASSERT_EQ(sum, memory.pool);
    for (const auto& lane : memory.lanes) {
      Bytes blocks;
      for (const auto* stack : {&lane.bottom, &lane.top}) {
        for (const auto& block : stack->blocks) blocks += block.bytes;
      }
      ASSERT_EQ(blocks + lane.waiting + lane.free, lane.size);
    }
    all_final = true;
    for (const JobId job : jobs) all_final &= runtime::IsFinal(engine->Get(job)->state);
  }
  for (const JobId job : jobs) EXPECT_EQ(engine->Get(job)->state, JobState::kSucceeded);
  EXPECT_GT(engine->Overlap().shared, 0);
  ExpectIdle(*engine);
}

TEST(Engine, ManyJobsQueueWhenTheirResidentStateDoesNotFitAtOnce) {
  const auto engine = MakeCheckedEngine({.memory = MiB(2)});
  std::vector<JobId> jobs;
  for (int j = 0; j < 12; ++j) {
    const auto job = engine->Submit(MakeJob({.width = 128, .steps = 30}));
    ASSERT_TRUE(job.ok()) << job.status();
    jobs.push_back(*job);
  }
  for (const JobId job : jobs) EXPECT_EQ(WaitUntilFinal(*engine, job).state, JobState::kSucceeded);
  ExpectIdle(*engine);
}

TEST(Engine, AJobBehindTheHeadOfTheQueueSaysWhomItWaitsFor) {
  const auto engine = MakeCheckedEngine({.memory = KiB(1280)});
  const auto running = engine->Submit(MakeJob({.width = 256, .steps = 1000000, .ladder = false}));
  const auto head = engine->Submit(MakeJob({.width = 256, .steps = 1, .ladder = false}));
  const auto behind = engine->Submit(MakeJob({.width = 16, .steps = 1, .ladder = false}));
  ASSERT_TRUE(running.ok() && head.ok() && behind.ok()) << head.status() << behind.status();
  // Its speed may not be known yet.
  EXPECT_THAT(engine->Explain(*head)->admission, HasSubstr("after j-1"));
  EXPECT_THAT(engine->Explain(*head)->admission, HasSubstr(" and a lane of "));
  EXPECT_THAT(engine->Explain(*head)->admission, Not(HasSubstr("before it")));
  EXPECT_THAT(engine->Explain(*behind)->admission, HasSubstr("; j-2 is before it"));
  WaitForStep(*engine, *running, 200);
  JobInfo info = *engine->Get(*head);
  while (!info.eta.has_value() && !runtime::IsFinal(info.state)) {
    info = *engine->WaitForChange(*head, info.version, absl::InfiniteFuture());
  }
  EXPECT_THAT(info.why, HasSubstr("after j-1 at about "));
  ASSERT_TRUE(info.eta.has_value());
  const JobInfo first = *engine->Get(*running);
  ASSERT_TRUE(first.eta.has_value());
  EXPECT_GT(*info.eta, *first.eta / 2);
  EXPECT_LT(*info.eta, *first.eta * 2);
  ASSERT_TRUE(engine->Cancel(*running).ok());
  EXPECT_EQ(WaitUntilFinal(*engine, *behind).state, JobState::kSucceeded);
}

int64_t ResidentKib() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind("VmRSS:", 0) == 0) return std::stoll(line.substr(6));
  }
  return 0;
}

TEST(Engine, AHundredSubmitsAndCancelsLeaveNothingBehind) {
  const auto engine = MakeCheckedEngine({.memory = MiB(16)});
  std::mt19937 random(3);
  std::vector<double> kib;
  for (int cycle = 0; cycle < 100; ++cycle) {
    const auto job = engine->Submit(
        MakeJob({.net = cycle % 2 ? Net::kCnn : Net::kMlp, .width = 16, .steps = 1000000}));
    ASSERT_TRUE(job.ok()) << job.status();
    WaitForStep(*engine, *job, static_cast<int64_t>(random() % 3));
    ASSERT_TRUE(engine->Cancel(*job).ok());
    WaitUntilFinal(*engine, *job);
    ASSERT_TRUE(engine->Forget(*job).ok());
    kib.push_back(static_cast<double>(ResidentKib()));
  }
  // Memory of cancelled jobs comes back once their launches are complete.
  while (engine->Memory().classes.at("free") != engine->Memory().pool) {
  }
  ExpectIdle(*engine);
  // Least-squares slope of the resident set over the second half.
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (int c = 50; c < 100; ++c) {
    n += 1, sx += c, sy += kib[c], sxx += double{1} * c * c, sxy += c * kib[c];
  }
  const double slope = (n * sxy - sx * sy) / (n * sxx - sx * sx);
#if !defined(__SANITIZE_ADDRESS__) && !defined(EBB_TSAN)
  EXPECT_LT(slope, 16.0) << "KiB a cycle";
#else
  (void)slope;  // sanitizers keep freed memory in quarantine
#endif
}

}  // namespace
}  // namespace ebb::testing
