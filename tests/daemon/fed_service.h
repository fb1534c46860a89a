// A service on a real engine, jobs that are fed what the same jobs would read from a file, and the
// wire by hand.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <numeric>

#include "absl/strings/str_cat.h"
#include "client/feed.h"
#include "daemon/server.h"
#include "daemon/service.h"
#include "daemon/wire.h"
#include "tests/daemon/temp_dir.h"
#include "tests/testing/jobs.h"

namespace ebb::daemon {

using client::FedBatch;

inline constexpr int64_t kBatch = 32, kSteps = 40;

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

// By hand: the wire's own words.
class Wire {
 public:
  Wire(const std::shared_ptr<grpc::Channel>& channel, const std::string& job,
       const std::string& client = "", bool take_over = false)
      : stub_(v1::Ebb::NewStub(channel)), stream_(stub_->Feed(&context_)) {
    v1::FeedRequest request;
    request.mutable_header()->set_job(job);
    request.mutable_header()->set_client(client);
    request.mutable_header()->set_take_over(take_over);
    EXPECT_TRUE(stream_->Write(request));
  }
  // False when the call has ended.
  bool Send(int64_t number, const FedBatch& batch, int64_t from = 0, int64_t to = kBatch,
            bool more = false, bool compare = false) {
    v1::FeedRequest request;
    request.mutable_batch()->set_number(number);
    request.mutable_batch()->set_more(more);
    request.mutable_batch()->set_compare(compare);
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
  bool Read(v1::FeedResponse* response) { return stream_->Read(response); }
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

}  // namespace ebb::daemon
