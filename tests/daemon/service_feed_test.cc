// The call Feed on a real engine: what is pushed trains to the bits of the same rows in a file, and
// what is wrong with it is its client's trouble alone.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/feed.h"
#include "daemon/server.h"
#include "daemon/service.h"
#include "daemon/wire.h"
#include "tests/daemon/temp_dir.h"
#include "tests/testing/jobs.h"

namespace ebb::daemon {
namespace {

using client::FedBatch;
using ::testing::HasSubstr;

constexpr int64_t kBatch = 32, kSteps = 40;

template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

class FeedTest : public ::testing::Test {
 protected:
  FeedTest()
      : store_(*Store::Open(state_.path(), {MiB(1), MiB(1)})),
        resolver_(store_.get(), {}, MiB(1)),
        engine_(testing::MakeEngine({.memory = MiB(64)})),
        service_(engine_.get(), store_.get(), &resolver_) {
    server_ = *Server::Start(&service_, {});
    channel_ = server_->InProcessChannel();
    client_ = std::make_unique<client::Client>(channel_, "in-process");
  }
  ~FeedTest() override { server_->Shutdown(absl::ZeroDuration()); }

  static runtime::JobSpec File(int64_t steps = kSteps) {
    return testing::MakeJob({.batch = kBatch, .width = 16, .steps = steps});
  }
  // Such a job, fed. Its id on the wire.
  std::string Fed(const std::function<void(runtime::JobSpec*)>& change = nullptr) {
    runtime::JobSpec spec = File();
    spec.train = {};
    spec.train.feed = runtime::FeedSpec{
        .schema = {{"x", {graph::DType::kF32, {64}}}, {"label", {graph::DType::kI64, {}}}}};
    if (change) change(&spec);
    const auto job = engine_->Submit(std::move(spec));
    EXPECT_TRUE(job.ok()) << job.status();
    job_ = *job;
    return JobLabel(*job);
  }
  // Batch `number` of the job that reads a file.
  static FedBatch BatchOf(int64_t number) {
    const runtime::JobSpec file = File();
    data::BatchSource source{.data = file.train.data,
                             .batch_size = kBatch,
                             .seed = file.seed_data,
                             .order = data::BatchSource::Order::kShuffled};
    source.rows.resize(static_cast<size_t>(source.data->rows()));
    std::iota(source.rows.begin(), source.rows.end(), 0);
    const int64_t an_epoch = source.BatchesPerEpoch();
    const std::vector<int64_t> order = data::EpochOrder(source, number / an_epoch);
    std::vector<float> x;
    std::vector<int64_t> label;
    const auto xs = source.data->fields().at("x").as<float>();
    const auto labels = source.data->fields().at("label").as<int64_t>();
    for (int64_t r = 0; r < kBatch; ++r) {
      const auto row =
          static_cast<size_t>(order[static_cast<size_t>(number % an_epoch * kBatch + r)]);
      x.insert(x.end(), xs.begin() + row * 64, xs.begin() + (row + 1) * 64);
      label.push_back(labels[row]);
    }
    return {{"x", "f32", {kBatch, 64}, BytesOf(x)}, {"label", "i64", {kBatch}, BytesOf(label)}};
  }
  static absl::StatusOr<std::optional<FedBatch>> Upto(int64_t number, int64_t end) {
    if (number >= end) return std::optional<FedBatch>();
    return std::optional<FedBatch>(BatchOf(number));
  }
  static client::BatchMaker UpTo(int64_t end) {
    return [end](int64_t number) { return Upto(number, end); };
  }
  // Weights, in one string.
  static std::string Weights(const runtime::Engine& engine, JobId job) {
    std::string bits;
    const auto result = engine.Result(job);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return bits;
    for (const auto& [name, tensor] :
         std::map((*result)->weights.begin(), (*result)->weights.end())) {
      bits.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
    }
    return bits;
  }
  static std::string FromFile() {
    const auto engine = testing::MakeEngine({.memory = MiB(64)});
    const auto job = engine->Submit(File());
    testing::WaitUntilFinal(*engine, *job);
    return Weights(*engine, *job);
  }

  TempDir state_;
  std::unique_ptr<Store> store_;
  Resolver resolver_;
  std::unique_ptr<runtime::Engine> engine_;
  Service service_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<client::Client> client_;
  JobId job_;
};

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
  for (const int64_t end : {int64_t{3}, int64_t{17}, kSteps}) {
    int64_t from = -1;
    const auto last = client::FeedJob(client_.get(), job,
                                      [&](int64_t number) {
                                        if (from < 0) from = number;
                                        return Upto(number, end);
                                      },
                                      {.at_end = client::AtEnd::kLeave});
    ASSERT_TRUE(last.ok()) << last.status();
    EXPECT_EQ(from, end == 3 ? 0 : end == 17 ? 3 : 17) << "it goes on where it was";
  }
  EXPECT_EQ(testing::WaitUntilFinal(*engine_, job_).state, runtime::JobState::kSucceeded);
  EXPECT_EQ(Weights(*engine_, job_), FromFile());
}

// By hand: the wire's own words.
class Wire {
 public:
  Wire(const std::shared_ptr<grpc::Channel>& channel, const std::string& job)
      : stub_(v1::Ebb::NewStub(channel)), stream_(stub_->Feed(&context_)) {
    v1::FeedRequest request;
    request.mutable_header()->set_job(job);
    EXPECT_TRUE(stream_->Write(request));
  }
  // False when the call has ended.
  bool Send(int64_t number, const FedBatch& batch, int64_t from = 0, int64_t to = kBatch,
            bool more = false) {
    v1::FeedRequest request;
    request.mutable_batch()->set_number(number);
    request.mutable_batch()->set_more(more);
    for (const auto& field : batch) {
      auto* out = request.mutable_batch()->add_fields();
      out->set_name(field.name);
      out->set_dtype(field.dtype);
      out->mutable_shape()->Add(field.shape.begin(), field.shape.end());
      if (!out->shape().empty() && (from > 0 || to < kBatch)) out->set_shape(0, to - from);
      const bool whole = from == 0 && to == kBatch;
      const size_t row = field.bytes.size() / kBatch;
      out->set_data(whole ? field.bytes : field.bytes.substr(row * from, row * (to - from)));
    }
    return stream_->Write(request);
  }
  void End(int64_t batches) {
    v1::FeedRequest request;
    request.mutable_end()->set_batches(batches);
    stream_->Write(request);
  }
  v1::FeedResponse AwaitNext(int64_t number) {
    v1::FeedResponse response;
    while (response.next_batch() < number && stream_->Read(&response)) {
    }
    return response;
  }
  grpc::Status Finish() {
    stream_->WritesDone();
    v1::FeedResponse response;
    while (stream_->Read(&response)) newest = response;
    return stream_->Finish();
  }
  void Vanish() {
    context_.TryCancel();
    stream_->Finish();
  }
  v1::FeedResponse newest;

 private:
  grpc::ClientContext context_;
  std::unique_ptr<v1::Ebb::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::FeedRequest, v1::FeedResponse>> stream_;
};

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

TEST_F(FeedTest, ANewClientTakesTheFeedFromTheOneBefore) {
  const std::string job = Fed();
  Wire old(channel_, job);
  old.Send(0, BatchOf(0));
  old.AwaitNext(1);
  Wire now(channel_, job);
  now.Send(1, BatchOf(1));
  now.AwaitNext(2);
  old.Send(2, BatchOf(2));
  EXPECT_EQ(old.Finish().error_code(), grpc::StatusCode::ABORTED);
  now.Send(2, BatchOf(2));
  EXPECT_EQ(now.AwaitNext(3).next_batch(), 3);
  EXPECT_TRUE(now.Finish().ok());
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
