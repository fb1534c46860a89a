// The call Feed on a real engine: what is pushed trains to the bits of the same rows in a file, and
// what is wrong with it is its client's trouble alone.
#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include "tests/daemon/fed_service.h"

namespace ebb::daemon {
namespace {

using ::testing::HasSubstr;

TEST_F(FeedTest, AJobThatIsFedHasTheWeightsOfOneThatReadsTheFile) {
  v1::FeedResponse first;
  const auto last = client::FeedJob(client_.get(), Fed(), UpTo(1'000'000),
                                    {.begun = [&](const v1::FeedResponse& begun) {
                                      first = begun;
                                      return absl::OkStatus();
                                    }});
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(first.next_batch(), 0);
  EXPECT_EQ(first.batch_rows(), kBatch);
  EXPECT_EQ(first.total_steps(), kSteps);
  EXPECT_EQ(first.schema().at("x"), "f32[64]");
  EXPECT_EQ(first.schema().at("label"), "i64");
  EXPECT_EQ(last->state(), v1::Job::STATE_SUCCEEDED);
  EXPECT_EQ(last->step(), kSteps);
  EXPECT_EQ(last->next_batch(), kSteps) << "more than the job reads is not taken";
  EXPECT_EQ(engine_->Get(job_)->state, runtime::JobState::kSucceeded);
  EXPECT_EQ(Weights(*engine_, job_), FromFile());
}

TEST_F(FeedTest, AClientThatGoesAndComesAgainChangesNoBit) {
  const std::string job = Fed();
  int64_t next = 0;
  for (const int64_t end : {int64_t{3}, int64_t{17}, kSteps}) {
    const auto at_begin = end == 17 ? client::AtBegin::kTrust : client::AtBegin::kCompare;
    int64_t from = -1;
    const auto last = client::FeedJob(client_.get(), job,
                                      [&](int64_t number) {
                                        if (from < 0) from = number;
                                        return Upto(number, end);
                                      },
                                      {.at_begin = at_begin, .at_end = client::AtEnd::kLeave});
    ASSERT_TRUE(last.ok()) << last.status();
    const bool compared = end == kSteps;
    EXPECT_EQ(from, compared ? next - 1 : next) << "it goes on where it was";
    next = end;
  }
  EXPECT_EQ(testing::WaitUntilFinal(*engine_, job_).state, runtime::JobState::kSucceeded);
  EXPECT_EQ(Weights(*engine_, job_), FromFile());
}

TEST_F(FeedTest, BatchesInPartsSentTwiceAndBrokenOffAreTheSame) {
  const std::string job = Fed();
  {
    Wire wire(channel_, job);
    for (int64_t n = 0; n < 5; ++n) {
      wire.Send(n, BatchOf(n), 0, 7, true);
      wire.Send(n, BatchOf(n), 7, 20, true);
      wire.Send(n, BatchOf(n), 20, kBatch);
    }
    wire.Send(5, BatchOf(5), 0, 10, true);
    EXPECT_EQ(wire.AwaitNext(5).next_batch(), 5);
    wire.Vanish();  // in the middle of batch 5
  }
  {
    Wire wire(channel_, job);
    for (int64_t n = 2; n < 12; ++n) wire.Send(n, BatchOf(n));
    EXPECT_TRUE(wire.Finish().ok());
    EXPECT_EQ(wire.newest.next_batch(), 12);
  }
  ASSERT_TRUE(client::FeedJob(client_.get(), job, UpTo(kSteps), {}).ok());
  EXPECT_EQ(testing::WaitUntilFinal(*engine_, job_).state, runtime::JobState::kSucceeded);
  EXPECT_EQ(Weights(*engine_, job_), FromFile());
}

TEST_F(FeedTest, WhatTheJobCannotReadEndsTheStreamAndMayBeSentAnew) {
  const std::string job = Fed();
  ASSERT_TRUE(client::FeedJob(client_.get(), job, UpTo(2), {.at_end = client::AtEnd::kLeave}).ok());
  const FedBatch good = BatchOf(2);
  const auto with = [&](size_t field, const std::function<void(client::FedField*)>& change) {
    FedBatch batch = good;
    change(&batch[field]);
    return batch;
  };
  const auto poke = [](client::FedField* field, size_t at, auto value) {
    std::memcpy(field->bytes.data() + at * sizeof(value), &value, sizeof(value));
  };
  using F = client::FedField;
  const std::vector<std::pair<FedBatch, std::string>> cases = {
      {with(0, [](F* f) { f->dtype = "f64"; }), "batch 2: field 'x': it is f64[32,64]"},
      {with(0, [](F* f) { f->dtype = "float"; }), "dtype 'float' is none of f32"},
      {with(0,
            [](F* f) {
              f->shape = {32, 8, 8};
            }),
       "the job reads f32[32,64]"},
      {with(0,
            [](F* f) {
              f->shape = {32, 64, 1 << 30, 1 << 30};
            }),
       "the job reads f32[32,64]"},
      {with(0,
            [](F* f) {
              f->shape = {-1, 64};
            }),
       "field 'x' has no rows"},
      {with(0, [](F* f) { f->name = "y"; }), "field 'y' is not in data.train.schema"},
      {with(1, [](F* f) { f->shape = {31}; }), "with 32 rows the job reads i64[32]"},
      {with(0, [](F* f) { f->bytes.resize(32 * 64 * 4 - 32); }), "it has 8160 bytes"},
      {{good[0]}, "field 'label' is missing"},
      {{good[0], good[0], good[1]}, "field 'x' is there twice"},
      {{}, "there are no fields"},
      {with(0, [&](F* f) { poke(f, 5 * 64 + 7, NAN); }), "field \"x\", row 5, element 7: nan"},
      {with(1, [&](F* f) { poke(f, 9, int64_t{10}); }), "field \"label\", row 9"},
  };
  for (const auto& [batch, message] : cases) {
    Wire wire(channel_, job);
    wire.Send(2, batch);
    const grpc::Status status = wire.Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << message;
    EXPECT_THAT(status.error_message(), HasSubstr(message));
  }
  {
    Wire wire(channel_, job);
    FedBatch few = good;
    few[0].shape = {30, 64};
    few[0].bytes.resize(30 * 64 * 4);
    few[1].shape = {30};
    few[1].bytes.resize(30 * 8);
    wire.Send(2, few);
    EXPECT_THAT(wire.Finish().error_message(),
                HasSubstr("it has 30 rows; a batch of the job has 32"));
  }
  {
    Wire wire(channel_, job);
    wire.Send(4, good);
    EXPECT_THAT(wire.Finish().error_message(), HasSubstr("batch 4 is not the next one; batch 2"));
  }
  {
    Wire wire(channel_, job);
    wire.End(7);
    EXPECT_THAT(wire.Finish().error_message(), HasSubstr("cannot end after 7 batches: batch 2"));
  }
  ASSERT_TRUE(client::FeedJob(client_.get(), job, UpTo(kSteps), {}).ok());
  EXPECT_EQ(testing::WaitUntilFinal(*engine_, job_).state, runtime::JobState::kSucceeded);
  EXPECT_EQ(Weights(*engine_, job_), FromFile());
}

TEST_F(FeedTest, TheEndOfTheDataEndsTheJob) {
  const auto last = client::FeedJob(client_.get(), Fed(), UpTo(9), {});
  ASSERT_TRUE(last.ok()) << last.status();
  const runtime::JobInfo done = testing::WaitUntilFinal(*engine_, job_);
  EXPECT_EQ(done.state, runtime::JobState::kSucceeded);
  EXPECT_EQ(done.step, 9);
  EXPECT_THAT(done.message, HasSubstr("the end of its feed"));
}

TEST_F(FeedTest, AClientOfAJobThatEndsIsToldHow) {
  const std::string job = Fed();
  Wire wire(channel_, job);
  wire.Send(0, BatchOf(0));
  wire.AwaitNext(1);
  ASSERT_TRUE(engine_->Cancel(job_).ok());
  const grpc::Status status = wire.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr(job + " has ended: cancelled"));
  EXPECT_EQ(wire.newest.state(), v1::Job::STATE_CANCELLED);
  EXPECT_THAT(Wire(channel_, job).Finish().error_message(), HasSubstr("has ended: cancelled"));
}

TEST_F(FeedTest, AClientThatSleepsOverTheEndOfItsJobIsBrokenOff) {
  const std::string job = Fed();
  const auto stub = v1::Ebb::NewStub(channel_);
  grpc::ClientContext context;
  const auto stream = stub->Feed(&context);
  v1::FeedRequest request;
  request.mutable_header()->set_job(job);
  ASSERT_TRUE(stream->Write(request));
  v1::FeedResponse response;
  ASSERT_TRUE(stream->Read(&response));
  ASSERT_TRUE(engine_->Cancel(job_).ok());
  while (stream->Read(&response)) {  // and never says that it is done
  }
  EXPECT_FALSE(stream->Finish().ok());
}

TEST_F(FeedTest, WhatIsNoFeedIsRefused) {
  const auto file = engine_->Submit(File());
  EXPECT_THAT(Wire(channel_, JobLabel(*file)).Finish().error_message(),
              HasSubstr("takes no batches"));
  EXPECT_EQ(Wire(channel_, "j-99").Finish().error_code(), grpc::StatusCode::NOT_FOUND);
  const auto stub = v1::Ebb::NewStub(channel_);
  grpc::ClientContext context;
  const auto stream = stub->Feed(&context);
  stream->WritesDone();
  EXPECT_THAT(stream->Finish().error_message(), HasSubstr("begins with its header"));
}

// The daemon reads no more than it has room for, and a client that is held back does not hinder
// what is done with its job.
TEST_F(FeedTest, AClientThatSendsMoreThanThereIsRoomForIsHeldBack) {
  const std::string job = Fed([](runtime::JobSpec* spec) { spec->stop.steps = 100'000; });
  ASSERT_TRUE(engine_->Pause(job_).ok());
  const auto feed = *engine_->FeedOf(job_);
  std::atomic<int64_t> made = 0;
  std::thread feeder([&] {
    const auto last =
        client::FeedJob(client_.get(), job,
                        [&](int64_t number) -> absl::StatusOr<std::optional<FedBatch>> {
                          made = number + 1;
                          return std::optional<FedBatch>(BatchOf(number));
                        },
                        {});
    EXPECT_EQ(last.status().code(), absl::StatusCode::kFailedPrecondition) << last.status();
  });
  while (feed->Now().credits > 0) std::this_thread::yield();
  EXPECT_LE(feed->batch_bytes() * made.load(), feed->HostBytes());
  EXPECT_LE(made, feed->Now().next + 1) << "the one that waits";
  ASSERT_TRUE(engine_->Cancel(job_).ok());
  feeder.join();
}

}  // namespace
}  // namespace ebb::daemon
