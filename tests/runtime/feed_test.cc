// Jobs whose batches are pushed train to the bits of jobs that read the same rows in the same order
// from a file, however they were fed.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/runtime/fed_jobs.h"

namespace ebb::testing {
namespace {

using runtime::EndReason;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(FedJobs, TrainToTheBitsOfTheSameRowsFromAFile) {
  for (const Net net : {Net::kMlp, Net::kCnn}) {
    JobOptions options = Options();
    options.net = net;
    options.width = net == Net::kMlp ? 16 : 4;
    const JobSpec file = MakeJob(options);
    const auto engine = MakeCheckedEngine({.memory = MiB(64)});
    const JobId job = Submitted(*engine, FedJob(options));
    Push(*FeedOf(*engine, job), file, 0, kSteps);
    const JobInfo done = WaitUntilFinal(*engine, job);
    ASSERT_EQ(done.state, JobState::kSucceeded) << done.message;
    EXPECT_EQ(done.step, kSteps);
    EXPECT_EQ(done.message, "") << "it ended where `stop` says";
    EXPECT_EQ(Bits(*engine, job), FromFile(file));
  }
}

TEST(FedJobs, AFeedThatBreaksOffAndSendsAgainChangesNoBit) {
  const JobSpec file = MakeJob(Options());
  const auto engine = MakeCheckedEngine({.memory = MiB(64)});
  const JobId job = Submitted(*engine, FedJob());
  const auto feed = FeedOf(*engine, job);
  Push(*feed, file, 0, 7);
  AwaitHunger(*engine, job, 7);
  EXPECT_EQ(feed->Now().next, 7);
  EXPECT_EQ(feed->Now().steps, 7);
  Push(*feed, file, 3, 20);  // 3 to 6 have been taken
  const Feed::Stream half = Opened(*feed);
  EXPECT_THAT(feed->Push(half, 21, BatchOf(file, 21)).ToString(),
              HasSubstr("batch 21 is not the next one; batch 20 is wanted"));
  feed->Close(half);
  Push(*feed, file, 20, kSteps);
  ASSERT_EQ(WaitUntilFinal(*engine, job).state, JobState::kSucceeded);
  EXPECT_EQ(Bits(*engine, job), FromFile(file));
}

TEST(FedJobs, WaitingHoldsNothingOfTheLaneAndOthersDoNotNotice) {
  JobOptions neighbour{.net = Net::kCnn, .batch = 16, .width = 8, .steps = 60};
  const std::string alone = SoloFingerprint(neighbour);
  const auto engine = MakeCheckedEngine({.memory = MiB(64)});
  const JobId fed = Submitted(*engine, FedJob());
  AwaitHunger(*engine, fed, 0);
  EXPECT_THAT(engine->Get(fed)->why, HasSubstr("feed not connected yet"));
  const JobId other = Submitted(*engine, MakeJob(neighbour));
  const JobSpec file = MakeJob(Options());
  const auto feed = FeedOf(*engine, fed);
  Push(*feed, file, 0, 9);
  AwaitHunger(*engine, fed, 9);
  EXPECT_THAT(engine->Get(fed)->why, HasSubstr("feed not connected since "));
  for (const auto& memory : engine->Memory().jobs) {
    EXPECT_TRUE(memory.job != fed || memory.held == Bytes(0)) << memory.held;
  }
  const JobInfo done = WaitUntilFinal(*engine, other);
  ASSERT_EQ(done.state, JobState::kSucceeded) << done.message;
  EXPECT_EQ(Fingerprint(*engine, other), alone);
  EXPECT_EQ(engine->Get(fed)->step, 9);
  Push(*feed, file, 9, kSteps);
  ASSERT_EQ(WaitUntilFinal(*engine, fed).state, JobState::kSucceeded);
  EXPECT_EQ(Bits(*engine, fed), FromFile(file));
}

// What is told is as of when it is asked for.
TEST(FedJobs, TheyNeverSayThatTheyWaitForWhatHasCome) {
  const JobSpec file = MakeJob(Options());
  const auto engine = MakeEngine({.memory = MiB(64)});
  const JobId job = Submitted(*engine, FedJob());
  const auto feed = FeedOf(*engine, job);
  for (int64_t n = 0; n < kSteps - 1; ++n) {
    AwaitHunger(*engine, job, n);
    const Feed::Stream stream = Opened(*feed);
    EXPECT_THAT(engine->Get(job)->why, HasSubstr("feed connected since "));
    ASSERT_TRUE(feed->Push(stream, n, BatchOf(file, n)).ok());
    EXPECT_THAT(engine->Get(job)->why, Not(HasSubstr(absl::StrCat("(batch ", n, ";"))));
    feed->Close(stream);
    EXPECT_THAT(engine->List()[0].why, Not(HasSubstr("feed connected since ")));
  }
  AwaitHunger(*engine, job, kSteps - 1);
  EXPECT_FALSE(engine->Get(job)->eta) << "nobody feeds it";
  ASSERT_TRUE(engine->Pause(job).ok());
  EXPECT_THAT(engine->Get(job)->why, Not(HasSubstr("waits for data")));
  ASSERT_TRUE(engine->Resume(job).ok());
  EXPECT_THAT(engine->Get(job)->why, HasSubstr("waits for data"));
  Push(*feed, file, kSteps - 1, kSteps);
  EXPECT_EQ(WaitUntilFinal(*engine, job).state, JobState::kSucceeded);
  EXPECT_EQ(engine->Get(job)->why, "");
}

TEST(FedJobs, TwoFedAtOnceAndPausedOnTheWayEachKeepTheirBits) {
  JobOptions first = Options(), second = Options();
  second.net = Net::kCnn;
  second.width = 4;
  const auto engine = MakeCheckedEngine({.memory = MiB(64)});
  const JobId a = Submitted(*engine, FedJob(first));
  const JobId b = Submitted(*engine, FedJob(second));
  const JobSpec file_a = MakeJob(first), file_b = MakeJob(second);
  std::thread feeder([&] { Push(*FeedOf(*engine, a), file_a, 0, kSteps); });
  Push(*FeedOf(*engine, b), file_b, 0, 5);
  EXPECT_TRUE(engine->Pause(b).ok());
  Push(*FeedOf(*engine, b), file_b, 5, 8);
  EXPECT_TRUE(engine->Resume(b).ok());
  Push(*FeedOf(*engine, b), file_b, 8, kSteps);
  feeder.join();
  ASSERT_EQ(WaitUntilFinal(*engine, a).state, JobState::kSucceeded);
  ASSERT_EQ(WaitUntilFinal(*engine, b).state, JobState::kSucceeded);
  EXPECT_EQ(Bits(*engine, a), FromFile(file_a));
  EXPECT_EQ(Bits(*engine, b), FromFile(file_b));
}

// The schedule goes by `stop`, whenever it becomes known where the feed ends.
TEST(FedJobs, TheEndOfTheFeedEndsTheJobWithItsLastEvaluation) {
  JobOptions options = Options();
  options.also = [](JobSpec* spec) { spec->schedule.kind = runtime::ScheduleKind::kCosine; };
  const JobSpec file = MakeJob(options);
  JobSpec spec = FedJob(options);
  spec.val = runtime::DataSource{.data = file.train.data, .tail = data::BatchSource::Tail::kPad};
  std::vector<std::string> bits;
  for (const bool known_late : {false, true}) {
    const auto engine = MakeCheckedEngine({.memory = MiB(64)});
    const JobId job = Submitted(*engine, spec);
    const auto feed = FeedOf(*engine, job);
    Push(*feed, file, 0, 13);
    if (known_late) AwaitHunger(*engine, job, 13);
    End(*feed, 13);
    const JobInfo done = WaitUntilFinal(*engine, job);
    ASSERT_EQ(done.state, JobState::kSucceeded) << done.message;
    EXPECT_EQ(done.step, 13);
    EXPECT_EQ(done.total_steps, 13);
    EXPECT_EQ(done.message, "ends after step 13, the end of its feed");
    EXPECT_EQ(done.reason, EndReason::kNone);
    EXPECT_DOUBLE_EQ(done.learning_rate, LearningRate(spec.schedule, 12, kSteps));
    const auto points = engine->Metrics(job, 0);
    EXPECT_EQ(std::count_if(points->begin(), points->end(),
                            [](const auto& point) { return point.name == "val/loss"; }),
              1);
    bits.push_back(Bits(*engine, job));
  }
  EXPECT_EQ(bits[0], bits[1]);
}

TEST(FedJobs, TheEndCanBeMovedWhileTheyWait) {
  const JobSpec file = MakeJob(Options());
  const auto engine = MakeEngine({.memory = MiB(64)});
  const JobId job = Submitted(*engine, FedJob());
  const auto feed = FeedOf(*engine, job);
  Push(*feed, file, 0, 6);
  AwaitHunger(*engine, job, 6);
  ASSERT_TRUE(engine->Update(job, {.stop = runtime::StopSpec{.steps = 9}}).ok());
  EXPECT_EQ(feed->Now().wanted, 9);
  Push(*feed, file, 6, 9);
  const JobInfo done = WaitUntilFinal(*engine, job);
  EXPECT_EQ(done.state, JobState::kSucceeded);
  EXPECT_EQ(done.step, 9);
  EXPECT_THAT(engine->Update(job, {.stop = runtime::StopSpec{.epochs = 1}}).ToString(),
              HasSubstr("is succeeded"));
}

TEST(FedJobs, ASimulatedDeviceWaitsForNobody) {
  const auto engine = MakeSimEngine(GiB(1));
  const JobId job = Submitted(*engine, FedJob());
  const JobInfo done = WaitUntilFinal(*engine, job);
  EXPECT_EQ(done.state, JobState::kSucceeded) << done.message;
  EXPECT_EQ(done.step, kSteps);
  EXPECT_THAT(done.warnings, ::testing::Contains(HasSubstr("reads no data")));
  EXPECT_FALSE(engine->FeedOf(job).ok());
}

}  // namespace
}  // namespace ebb::testing
