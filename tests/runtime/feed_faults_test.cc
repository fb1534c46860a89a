// What a feed does wrong hurts nobody but its own job, and is said in words.
#include <gmock/gmock.h>

#include <limits>

#include "runtime/host_budget.h"
#include "tests/runtime/fed_jobs.h"

namespace ebb::testing {
namespace {

using runtime::EndReason;
using ::testing::HasSubstr;

TEST(FedJobs, AFeedThatEndsAtOnceFailsItsJob) {
  const auto engine = MakeEngine({.memory = MiB(64)});
  const JobId job = Submitted(*engine, FedJob());
  End(*FeedOf(*engine, job), 0);
  const JobInfo done = WaitUntilFinal(*engine, job);
  EXPECT_EQ(done.state, JobState::kFailed);
  EXPECT_EQ(done.reason, EndReason::kData);
  EXPECT_THAT(done.message, HasSubstr("ended before its first batch"));
}

TEST(FedJobs, AFeedThatStallsFailsOnlyItsOwnJob) {
  JobOptions neighbour = Options();
  neighbour.steps = 200;
  const auto engine = MakeCheckedEngine({.memory = MiB(64)});
  JobSpec spec = FedJob();
  spec.train.feed->timeout = absl::Milliseconds(300);
  const JobId fed = Submitted(*engine, spec);
  const JobId other = Submitted(*engine, MakeJob(neighbour));
  const auto feed = FeedOf(*engine, fed);
  Push(*feed, MakeJob(Options()), 0, 3);
  const JobInfo done = WaitUntilFinal(*engine, fed);
  EXPECT_EQ(done.state, JobState::kFailed);
  EXPECT_EQ(done.reason, EndReason::kData);
  EXPECT_EQ(done.step, 3);
  EXPECT_THAT(done.message, HasSubstr("waited for batch 3 from its client for 300ms "
                                      "(data.train.feed_timeout; feed not connected since "));
  Feed::Position last = feed->Now();
  while (!last.ended) last = feed->WaitForChange(last.version, Soon());
  EXPECT_EQ(last.ended, JobState::kFailed);
  ASSERT_EQ(WaitUntilFinal(*engine, other).state, JobState::kSucceeded);
  EXPECT_EQ(Fingerprint(*engine, other), SoloFingerprint(neighbour));
}

TEST(FedJobs, APausedJobDoesNotWaitForItsFeed) {
  const auto engine = MakeEngine({.memory = MiB(64)});
  JobSpec spec = FedJob();
  spec.train.feed->timeout = absl::Milliseconds(250);
  const JobId fed = Submitted(*engine, spec);
  ASSERT_TRUE(engine->Pause(fed).ok());
  const JobId clock = Submitted(*engine, MakeJob(Options()));
  WaitUntilFinal(*engine, clock);
  const absl::Time until = absl::Now() + absl::Milliseconds(700);
  while (absl::Now() < until) {
    engine->WaitForChange(fed, engine->Get(fed)->version, until).IgnoreError();
  }
  EXPECT_EQ(engine->Get(fed)->state, JobState::kPaused);
  ASSERT_TRUE(engine->Resume(fed).ok());
  EXPECT_EQ(WaitUntilFinal(*engine, fed).reason, EndReason::kData);
}

TEST(FedJobs, WhatTheyCannotReadIsRefusedAndMayBeSentAnew) {
  const JobSpec file = MakeJob(Options());
  const auto engine = MakeEngine({.memory = MiB(64)});
  const JobId job = Submitted(*engine, FedJob());
  const auto feed = FeedOf(*engine, job);
  Push(*feed, file, 0, 2);
  const Fields good = BatchOf(file, 2);
  const auto with = [&](const std::string& name, HostTensor tensor) {
    Fields fields = good;
    fields[name] = std::move(tensor);
    return fields;
  };
  Fields missing = good;
  missing.erase("x");
  HostTensor nan = good.at("x"), stray = good.at("label");
  nan.as<float>()[5 * 64 + 7] = std::numeric_limits<float>::quiet_NaN();
  stray.as<int64_t>()[9] = 10;
  const std::vector<std::pair<Fields, std::string>> cases = {
      {with("x", HostTensor::Zeros({DType::kF32, {31, 64}})),
       "batch 2: field \"x\" is f32[31,64]; a batch of the job has f32[32,64]"},
      {with("x", HostTensor::Zeros({DType::kF64, {32, 64}})), "field \"x\" is f64[32,64]"},
      {with("y", HostTensor::Zeros({DType::kF32, {32}})),
       "field \"y\" is not in data.train.schema"},
      {missing, "field \"x\" is missing; it is f32[32,64]"},
      {with("x", nan), "batch 2: field \"x\", row 5, element 7: nan is not finite"},
      {with("label", stray), "batch 2: field \"label\", row 9"},
  };
  for (const auto& [fields, message] : cases) {
    const Feed::Stream stream = Opened(*feed);
    const absl::Status pushed = feed->Push(stream, 2, fields);
    EXPECT_EQ(pushed.code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_THAT(std::string(pushed.message()), HasSubstr(message));
    EXPECT_EQ(feed->Now().next, 2);
    feed->Close(stream);
  }
  Push(*feed, file, 2, kSteps);
  ASSERT_EQ(WaitUntilFinal(*engine, job).state, JobState::kSucceeded);
  EXPECT_EQ(Bits(*engine, job), FromFile(file));
}

TEST(FedJobs, TheQueueIsBoundedCountedAndGivenBack) {
  JobOptions options = Options();
  options.steps = 10'000;
  const JobSpec file = MakeJob(options);
  const runtime::HostBudget budget(MiB(64));
  const auto engine = MakeEngine({.memory = MiB(64), .host_budget = budget});
  const JobId job = Submitted(*engine, FedJob(options));
  const auto feed = FeedOf(*engine, job);
  ASSERT_TRUE(engine->Pause(job).ok());
  const Feed::Stream stream = Opened(*feed);
  int64_t n = 0;
  while (feed->AwaitRoom(stream, absl::Now()) && n < options.steps) {
    ASSERT_TRUE(feed->Push(stream, n, BatchOf(file, n)).ok());
    ++n;
  }
  EXPECT_LE(feed->batch_bytes() * n, feed->HostBytes());
  EXPECT_EQ(feed->Now().credits, 0);
  EXPECT_EQ(feed->Push(stream, n, BatchOf(file, n)).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(engine->Memory().host.at("fed batches"), feed->HostBytes());
  EXPECT_GE(budget.taken(), feed->HostBytes());
  ASSERT_TRUE(engine->Cancel(job).ok());
  while (engine->Memory().classes.at("free") != MiB(64)) {
  }
  EXPECT_EQ(budget.taken(), Bytes(0));
  EXPECT_THAT(feed->Push(stream, n, BatchOf(file, n)).ToString(),
              HasSubstr("the job has ended: cancelled"));

  const runtime::HostBudget small(KiB(64));
  const auto tight = MakeEngine({.memory = MiB(64), .host_budget = small});
  EXPECT_THAT(tight->Submit(FedJob()).status().ToString(), HasSubstr("host"));
}

TEST(FedJobs, WhoIsConnectedKeepsTheFeed) {
  const JobSpec file = MakeJob(Options());
  const auto engine = MakeEngine({.memory = MiB(64)});
  const JobId job = Submitted(*engine, FedJob());
  const auto feed = FeedOf(*engine, job);
  const Feed::Stream first = Opened(*feed, {.name = "the first"});
  ASSERT_TRUE(feed->Push(first, 0, BatchOf(file, 0)).ok());
  for (const char* name : {"", "the second"}) {
    const absl::Status refused = feed->Open({.name = name}, absl::Now()).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(refused.ToString(),
                HasSubstr("another client feeds the job: the first, connected since "));
    EXPECT_THAT(refused.ToString(), HasSubstr("1 batches are in"));
    EXPECT_THAT(refused.ToString(), HasSubstr("--take_over"));
  }
  ASSERT_TRUE(feed->Push(first, 1, BatchOf(file, 1)).ok()) << "nobody has taken it";
  // Its own connection broke, and the daemon does not know it yet.
  const Feed::Stream again = Opened(*feed, {.name = "the first"});
  ASSERT_TRUE(feed->Push(again, 2, BatchOf(file, 2)).ok());
  feed->Close(again);
  const Feed::Stream nameless = Opened(*feed);
  EXPECT_THAT(feed->Open({}, absl::Now()).status().ToString(),
              HasSubstr("a client that gave no name"))
      << "no name is nobody's";
  // One that is going is waited for.
  std::thread goes([&] { feed->Close(nameless); });
  EXPECT_TRUE(feed->Open({.name = "the second"}, Soon()).ok());
  goes.join();
  ASSERT_TRUE(engine->Cancel(job).ok());
  EXPECT_TRUE(feed->Open({}, absl::Now()).ok()) << "to be told how the job has ended";
}

TEST(FedJobs, TheBatchBeforeIsCompared) {
  const JobSpec file = MakeJob(Options());
  const auto engine = MakeEngine({.memory = MiB(64)});
  const JobId job = Submitted(*engine, FedJob());
  const auto feed = FeedOf(*engine, job);
  Feed::Stream stream = Opened(*feed, {.name = "day 1"});
  EXPECT_THAT(feed->Compare(stream, 0, BatchOf(file, 0)).ToString(), HasSubstr("there is none"));
  for (int64_t n = 0; n < 3; ++n) ASSERT_TRUE(feed->Push(stream, n, BatchOf(file, n)).ok());
  feed->Close(stream);
  stream = Opened(*feed, {.name = "day 2"});
  EXPECT_TRUE(feed->Compare(stream, 2, BatchOf(file, 2)).ok());
  EXPECT_THAT(feed->Compare(stream, 1, BatchOf(file, 1)).ToString(), HasSubstr("batch 2"));
  EXPECT_THAT(feed->Compare(stream, 3, BatchOf(file, 3)).ToString(), HasSubstr("batch 2"));
  Fields other = BatchOf(file, 2);
  other.at("x").as<float>()[32 * 64 - 1] += 1;
  Fields exchanged = BatchOf(file, 2);
  exchanged.at("label").as<int64_t>()[0] ^= 1;
  for (const Fields& fields : {other, exchanged, BatchOf(file, 1)}) {
    const absl::Status refused = feed->Compare(stream, 2, fields);
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(refused.ToString(), HasSubstr("batch 2 is not the one that day 1 has fed"));
    EXPECT_THAT(refused.ToString(), HasSubstr("--other_source"));
  }
  EXPECT_EQ(feed->Now().next, 3);
  ASSERT_TRUE(feed->Push(stream, 3, BatchOf(file, 3)).ok()) << "without comparing";
  EXPECT_TRUE(feed->Compare(stream, 3, BatchOf(file, 3)).ok());
  const Feed::Stream now = Opened(*feed, {.take_over = true});
  EXPECT_EQ(feed->Compare(stream, 3, BatchOf(file, 3)).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(feed->Compare(now, 3, BatchOf(file, 3)).ok());
}

TEST(FedJobs, ATakeOverTakesTheFeed) {
  const JobSpec file = MakeJob(Options());
  const auto engine = MakeEngine({.memory = MiB(64)});
  const JobId job = Submitted(*engine, FedJob());
  const auto feed = FeedOf(*engine, job);
  const Feed::Stream old = Opened(*feed);
  const Feed::Stream now = Opened(*feed, {.name = "the next", .take_over = true});
  const absl::Status pushed = feed->Push(old, 0, BatchOf(file, 0));
  EXPECT_EQ(pushed.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(pushed.ToString(), HasSubstr("another client has taken the feed: the next"));
  EXPECT_EQ(feed->End(old, 0).code(), absl::StatusCode::kAborted);
  feed->Close(old);
  EXPECT_TRUE(feed->Push(now, 0, BatchOf(file, 0)).ok());
  EXPECT_THAT(feed->LinkInWords(), HasSubstr("feed connected since"));
  EXPECT_THAT(feed->End(now, 3).ToString(), HasSubstr("batch 1 is the next one"));
  ASSERT_TRUE(feed->End(now, 1).ok());
  EXPECT_TRUE(feed->End(now, 1).ok()) << "said again";
  EXPECT_THAT(feed->Push(now, 1, BatchOf(file, 1)).ToString(), HasSubstr("ended after 1 batches"));
  EXPECT_EQ(WaitUntilFinal(*engine, job).state, JobState::kSucceeded);
}

TEST(FedJobs, SpecsThatAFeedCannotServeAreRefused) {
  const auto engine = MakeEngine({.memory = MiB(64)});
  const auto refusal = [&](const std::function<void(JobSpec*)>& change) {
    JobSpec spec = FedJob();
    change(&spec);
    return engine->Submit(std::move(spec)).status().ToString();
  };
  EXPECT_THAT(refusal([](JobSpec* spec) { spec->stop = {.epochs = 1}; }),
              HasSubstr("stop.epochs: a feed has no epochs"));
  EXPECT_THAT(refusal([](JobSpec* spec) { spec->train.feed->schema.erase("x"); }),
              HasSubstr("has no field \"x\""));
  EXPECT_THAT(refusal([](JobSpec* spec) { spec->train.feed->schema.clear(); }),
              HasSubstr("schema is missing"));
  EXPECT_THAT(refusal([](JobSpec* spec) {
                spec->train.feed->schema["z"] = {DType::kF32, {2}};
              }),
              HasSubstr("\"z\" feeds no input of the model"));
  EXPECT_THAT(refusal([](JobSpec* spec) {
                spec->train.feed->schema["x"] = {DType::kF32, {63}};
              }),
              HasSubstr("rows of shape [63]"));
  EXPECT_THAT(refusal([](JobSpec* spec) {
                spec->train.feed->schema["label"] = {DType::kF32, {}};
              }),
              HasSubstr("f32 is not converted to i64"));
  EXPECT_THAT(refusal([](JobSpec* spec) {
                spec->train.feed->schema["x"] = {DType::kF32, {int64_t{1} << 40}};
              }),
              HasSubstr("since it must fit a message"));
  EXPECT_THAT(refusal([](JobSpec* spec) { spec->val = spec->train; }),
              HasSubstr("data.val: only training is fed"));
  EXPECT_THAT(refusal([](JobSpec* spec) {
                spec->val = MakeJob(Options()).train;
                spec->evaluate.every_epochs = 1;
              }),
              HasSubstr("evaluate.every: a feed has no epochs"));
  const JobId file = Submitted(*engine, MakeJob(Options()));
  EXPECT_THAT(engine->FeedOf(file).status().ToString(), HasSubstr("takes no batches"));
}

}  // namespace
}  // namespace ebb::testing
