// Who may feed a job, and with what it may go on.
#include <gmock/gmock.h>

#include "tests/daemon/fed_service.h"

namespace ebb::daemon {
namespace {

using ::testing::HasSubstr;

TEST_F(FeedTest, AClientThatIsConnectedKeepsTheFeedUnlessItIsTaken) {
  const std::string job = Fed();
  Wire old(channel_, job, "ebb feed day1.npz");
  old.Send(0, BatchOf(0));
  old.AwaitNext(1);
  for (const char* client : {"", "ebb feed day2.npz"}) {
    const grpc::Status refused = Wire(channel_, job, client).Finish();
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_THAT(refused.error_message(),
                HasSubstr(job + ": another client feeds the job: ebb feed day1.npz, connected"));
  }
  old.Send(1, BatchOf(1));
  EXPECT_EQ(old.AwaitNext(2).next_batch(), 2) << "it did not notice";
  Wire now(channel_, job, "ebb feed day2.npz", true);
  now.Send(2, BatchOf(2));
  now.AwaitNext(3);
  v1::FeedResponse told;
  while (told.taken_by().empty()) ASSERT_TRUE(old.Read(&told)) << "at once, whatever it does";
  EXPECT_EQ(told.taken_by(), "ebb feed day2.npz");
  old.Send(2, BatchOf(2));
  const grpc::Status lost = old.Finish();
  EXPECT_EQ(lost.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(lost.error_message(), HasSubstr("has taken the feed: ebb feed day2.npz"));
  EXPECT_THAT(Wire(channel_, job, std::string(257, 'x')).Finish().error_message(),
              HasSubstr("header.client has 257 bytes; at most 256"));
  now.Send(3, BatchOf(3));
  EXPECT_EQ(now.AwaitNext(4).next_batch(), 4);
  EXPECT_TRUE(now.Finish().ok());
  // Nobody is connected: anybody may go on.
  Wire any(channel_, job);
  any.Send(4, BatchOf(4));
  EXPECT_EQ(any.AwaitNext(5).next_batch(), 5);
  EXPECT_TRUE(any.Finish().ok());
}

// A client that is cut off while the job has no room lingers for a moment.
TEST_F(FeedTest, AClientThatVanishesLeavesTheFeedToTheNextOne) {
  const std::string job = Fed([](runtime::JobSpec* spec) { spec->stop.steps = 100'000; });
  ASSERT_TRUE(engine_->Pause(job_).ok());
  const auto feed = *engine_->FeedOf(job_);
  Wire old(channel_, job, "old");
  int64_t n = 0;
  runtime::Feed::Position full;
  do {  // what is staged first leaves room again
    for (; feed->Now().credits > 0; ++n) {
      old.Send(n, BatchOf(n));
      old.AwaitNext(n + 1);
    }
    full = feed->Now();
  } while (full.credits > 0 ||
           feed->WaitForChange(full.version, absl::Now() + absl::Milliseconds(300)).credits > 0);
  old.Send(n, BatchOf(n));  // is waited with
  old.Vanish();
  Wire next(channel_, job, "next");
  EXPECT_EQ(next.AwaitNext(n).next_batch(), n);
  EXPECT_TRUE(next.Finish().ok());
}

TEST_F(FeedTest, AnotherSourceIsRefusedUnlessItIsMeant) {
  const std::string job = Fed();
  const auto feed = [&](int64_t first, int64_t end, client::AtBegin at_begin) {
    return client::FeedJob(client_.get(), job,
                           [&](int64_t number) { return Upto(number + first, end + first); },
                           {.name = absl::StrCat("rows from ", first),
                            .at_begin = at_begin,
                            .at_end = client::AtEnd::kLeave})
        .status();
  };
  ASSERT_TRUE(feed(0, 6, client::AtBegin::kCompare).ok());
  const absl::Status other = feed(1, 9, client::AtBegin::kCompare);
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(other.ToString(), HasSubstr("batch 5 is not the one that rows from 0 (pid "));
  for (const int64_t end : {0, 1, 5}) {
    const absl::Status few = feed(0, end, client::AtBegin::kCompare);
    EXPECT_EQ(few.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(few.ToString(), HasSubstr(job + " has 6 batches already"));
  }
  EXPECT_TRUE(feed(0, 6, client::AtBegin::kCompare).ok()) << "the same once more";
  EXPECT_EQ((*engine_->FeedOf(job_))->Now().next, 6);
  EXPECT_TRUE(feed(1, 8, client::AtBegin::kTrust).ok());
  EXPECT_EQ((*engine_->FeedOf(job_))->Now().next, 8);
  EXPECT_TRUE(feed(1, 9, client::AtBegin::kCompare).ok()) << "since then it is this one";
  EXPECT_EQ(engine_->Get(job_)->state, runtime::JobState::kRunning) << "nothing has ended it";
}

// In several messages, as batches that are large.
TEST_F(FeedTest, BatchesInPartsAreComparedToo) {
  const std::string job = Fed();
  ASSERT_TRUE(client::FeedJob(client_.get(), job, UpTo(2), {.at_end = client::AtEnd::kLeave}).ok());
  const auto compare = [&](Wire& wire, int64_t number, int64_t first, int64_t second) {
    wire.Send(number, BatchOf(first), 0, 7, true, true);
    wire.Send(number, BatchOf(second), 7, kBatch, false, true);
  };
  {
    Wire wire(channel_, job);
    compare(wire, 1, 1, 1);
    wire.Send(2, BatchOf(2));
    EXPECT_TRUE(wire.Finish().ok());
    EXPECT_EQ(wire.newest.next_batch(), 3);
  }
  for (const int64_t number : {-1, 1, 3}) {
    Wire wire(channel_, job);
    compare(wire, number, 1, 1);
    const grpc::Status status = wire.Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("only the last one that was taken can, batch 2"));
  }
  Wire wire(channel_, job);
  compare(wire, 2, 2, 1);
  EXPECT_THAT(wire.Finish().error_message(), HasSubstr("batch 2 is not the one that"));
}

TEST_F(FeedTest, OneCallAtATimeOfOneProgramToo) {
  const std::string job = Fed();
  absl::Status second;
  const auto last =
      client::FeedJob(client_.get(), job,
                      [&](int64_t number) {
                        if (number == 3)
                          second = client::FeedJob(client_.get(), job, UpTo(2), {}).status();
                        return Upto(number, 9);
                      },
                      {});
  EXPECT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition) << second;
  EXPECT_THAT(second.ToString(), HasSubstr("another client feeds the job: a client (pid "));
  EXPECT_EQ(testing::WaitUntilFinal(*engine_, job_).step, 9);
}

TEST_F(FeedTest, FeedJobTakesTheFeedIfItIsToldTo) {
  const std::string job = Fed();
  Wire old(channel_, job, "old");
  old.Send(0, BatchOf(0));
  old.AwaitNext(1);
  const auto last =
      client::FeedJob(client_.get(), job, UpTo(4),
                      {.other = client::OtherClient::kIsEnded, .at_end = client::AtEnd::kLeave});
  EXPECT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->next_batch(), 4);
  old.Send(1, BatchOf(1));
  EXPECT_EQ(old.Finish().error_code(), grpc::StatusCode::ABORTED);
}

}  // namespace
}  // namespace ebb::daemon
