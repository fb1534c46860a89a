// Jobs, watches, reports and estimates over the service.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "tests/daemon/service_fixture.h"

namespace ebb::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(ServiceTest, SubmitStoresTheFilesAndTakesTheJob) {
  const v1::Job job = Submit({"labels.study=a"});
  EXPECT_EQ(job.id(), "j-1");
  EXPECT_EQ(job.name(), "trial");
  EXPECT_EQ(job.state(), v1::Job::STATE_QUEUED);
  EXPECT_EQ(*engine_.last_spec().model.onnx, "model");
  EXPECT_EQ(engine_.last_spec().train.data->rows(), 3);
  EXPECT_EQ(client_->ListStored()->objects_size(), 2);
  EXPECT_EQ(client_->ListStored(v1::OBJECT_KIND_ONNX)->objects(0).name(), "m.onnx");
  Submit();
  EXPECT_EQ(client_->ListStored()->objects_size(), 2) << "the same files are stored once";
  EXPECT_EQ(client_->List()->jobs_size(), 2);
  EXPECT_EQ(client_->List({{"study", "a"}})->jobs_size(), 1);
}

TEST_F(ServiceTest, TokenFilesAreStoredOnceForTrainingAndValidation) {
  files_.Write("t.bin", std::string("\1\0\2\0\3\0\4\0\5\0\6\0\7\0\10\0", 16));
  Submit({"data.train={tokens: t.bin, window: 3, range: [0, 0.75]}",
          "data.val={tokens: t.bin, window: 2, range: [0.75, 1]}",
          "bind={x: 'tokens[:-1]', label: 'tokens[1:]'}"});
  const auto stored = client_->ListStored(v1::OBJECT_KIND_DATA);
  ASSERT_EQ(stored->objects_size(), 1);
  EXPECT_EQ(stored->objects(0).name(), "t.bin");
  const runtime::JobSpec spec = engine_.last_spec();
  EXPECT_EQ(spec.train.data->rows(), 2);
  EXPECT_THAT(spec.val->data->fields().at("tokens").as<int32_t>(), ElementsAre(7, 8));
  EXPECT_EQ(spec.bind.at("x"), "tokens[:-1]");
  const auto refused =
      client::SubmitFile(client_.get(), spec_path_, {"data.train={tokens: t.bin, window: 9}"}, "");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("data.train.tokens: " + files_.path() + "/t.bin: window 9 is longer"));
}

TEST_F(ServiceTest, JobsAreNamedByIdNumberOrUniqueName) {
  Submit();
  for (const char* name : {"j-1", "1", "trial"}) EXPECT_EQ(client_->Get(name)->id(), "j-1") << name;
  for (const char* name : {"j-2", "2", "other", "-1", "j--1"}) {
    EXPECT_EQ(client_->Get(name).status().code(), absl::StatusCode::kNotFound) << name;
  }
  Submit();
  const auto twice = client_->Get("trial");
  EXPECT_EQ(twice.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(twice.status().message()), HasSubstr("j-1, j-2"));
  EXPECT_EQ(client_->Get("").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ServiceTest, AKeyMakesSubmitIdempotent) {
  EXPECT_EQ(Submit({"labels={a: b, c: d, e: f}"}, "key").id(), "j-1");
  EXPECT_EQ(Submit({"labels={e: f, c: d, a: b}"}, "key").id(), "j-1");
  EXPECT_EQ(engine_.submits(), 1);
  EXPECT_EQ(client::SubmitFile(client_.get(), spec_path_, {"batch_size=1"}, "key").status().code(),
            absl::StatusCode::kAlreadyExists);
  engine_.End(JobId(1), runtime::JobState::kSucceeded);
  ASSERT_TRUE(client_->Forget("j-1").ok());
  EXPECT_EQ(Submit({}, "key").id(), "j-2") << "the key goes with the job";
}

TEST_F(ServiceTest, OfConcurrentSubmitsWithOneKeyOneCounts) {
  Submit();  // stores the files
  std::vector<std::thread> threads;
  std::vector<std::string> ids(8);
  for (size_t i = 0; i < ids.size(); ++i) {
    threads.emplace_back([&, i] { ids[i] = Submit({}, "same").id(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(ids, testing::Each("j-2"));
  EXPECT_EQ(engine_.submits(), 2);
}

TEST_F(ServiceTest, AFailedSubmitFreesItsKey) {
  engine_.FailSubmits(absl::ResourceExhaustedError("needs 9 GiB; there are 4"));
  const auto refused = client::SubmitFile(client_.get(), spec_path_, {}, "key");
  EXPECT_EQ(refused.status(), absl::ResourceExhaustedError("needs 9 GiB; there are 4"));
  engine_.FailSubmits(absl::OkStatus());
  EXPECT_EQ(Submit({}, "key").id(), "j-1");
}

TEST_F(ServiceTest, WhatItDoesNotKnowInARequestIsRefused) {
  Submit();
  const auto stub = v1::Ebb::NewStub(channel_);
  {
    grpc::ClientContext context;
    v1::CancelRequest request;
    request.set_job("j-1");
    request.GetReflection()->MutableUnknownFields(&request)->AddVarint(77, 1);
    v1::Job job;
    const grpc::Status status = stub->Cancel(&context, request, &job);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_THAT(status.error_message(), HasSubstr("CancelRequest has field number 77"));
  }
  {
    grpc::ClientContext context;
    v1::SubmitRequest request;
    request.GetReflection()->MutableUnknownFields(&request)->AddVarint(3, 1);
    v1::Job job;
    const grpc::Status status = stub->Submit(&context, request, &job);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
  {
    grpc::ClientContext context;
    v1::ListStoredRequest request;
    request.set_kind(static_cast<v1::ObjectKind>(99));
    v1::ListStoredResponse response;
    const grpc::Status status = stub->ListStored(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_THAT(status.error_message(), HasSubstr("kind is 99"));
  }
  {
    grpc::ClientContext context;
    v1::StoredObject stored;
    const auto writer = stub->Put(&context, &stored);
    v1::PutRequest header;
    header.mutable_header()->set_kind(static_cast<v1::ObjectKind>(99));
    header.mutable_header()->set_sha256(Sha256Hex(""));
    writer->Write(header);
    writer->WritesDone();
    EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
  EXPECT_EQ(client_->Get("1")->state(), v1::Job::STATE_QUEUED);
}

TEST_F(ServiceTest, TextThatIsNotUtf8IsTheClientsError) {
  const auto job = client_->Get("a\xff");
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(job.status().message()), HasSubstr("job: 'a\\xff' is not UTF-8"));
  EXPECT_EQ(client_->Forget("\xff").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client_->List({{"k", "\xff"}}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ServiceTest, WatchGivesEveryPointAndTheEnd) {
  Submit();
  std::vector<int64_t> steps;
  v1::Job last;
  int64_t next = 0;
  std::thread watcher([&] {
    const absl::Status status = client_->Watch("j-1", 0, [&](const v1::WatchResponse& update) {
      for (const auto& point : update.points()) steps.push_back(point.step());
      last = update.job();
      next = update.next_point();
      return true;
    });
    EXPECT_TRUE(status.ok()) << status;
  });
  for (int step = 1; step <= 100; ++step) engine_.Step(JobId(1), step, 1.0 / step);
  engine_.End(JobId(1), runtime::JobState::kFailed, runtime::EndReason::kNan,
              "the loss is not a number");
  watcher.join();
  ASSERT_EQ(steps.size(), 100u);
  for (size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i], static_cast<int64_t>(i) + 1);
  EXPECT_EQ(last.state(), v1::Job::STATE_FAILED);
  EXPECT_EQ(last.reason(), v1::Job::REASON_NAN);
  EXPECT_EQ(last.message(), "the loss is not a number");
  EXPECT_EQ(next, 100);
  // A watch can go on where another one stopped.
  std::vector<int64_t> rest;
  ASSERT_TRUE(client_
                  ->Watch("j-1", 98,
                          [&](const v1::WatchResponse& update) {
                            for (const auto& point : update.points()) rest.push_back(point.step());
                            return true;
                          })
                  .ok());
  EXPECT_THAT(rest, ElementsAre(99, 100));
}

TEST_F(ServiceTest, AWatcherThatLeavesIsForgotten) {
  Submit();
  ASSERT_TRUE(client_->Watch("j-1", 0, [](const v1::WatchResponse&) { return false; }).ok());
  Await([&] { return engine_.waiters() == 0; });
  EXPECT_EQ(client_->Watch("nobody", 0, [](const v1::WatchResponse&) { return true; }).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(client_->Watch("j-1", -1, [](const v1::WatchResponse&) { return true; }).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ServiceTest, ShutdownEndsWatches) {
  Submit();
  std::thread watcher([&] {
    EXPECT_FALSE(client_->Watch("j-1", 0, [](const v1::WatchResponse&) { return true; }).ok());
  });
  Await([&] { return engine_.waiters() == 1; });
  server_->Shutdown(absl::ZeroDuration());
  watcher.join();
}

TEST_F(ServiceTest, AnEstimateAsksTheEngineAndLeavesNoJob) {
  v1::JobSpec spec = *client::ReadSpecFile(spec_path_, {"data.train.file=gone.csv"});
  client::Uploader uploader(client_.get());
  ASSERT_TRUE(uploader.UploadModel(files_.path(), &spec).ok());
  const auto response = client_->Estimate(spec);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->estimates_size(), 1);
  const v1::Estimate& live = response->estimates(0);
  EXPECT_EQ(live.device(), "live");
  EXPECT_EQ(live.verdict(), v1::Estimate::VERDICT_AFTER);
  EXPECT_EQ(live.after(), "j-3");
  EXPECT_EQ(live.wait().seconds(), 1);
  EXPECT_EQ(live.wait().nanos(), 500000000);
  EXPECT_EQ(live.batch_size(), 2);
  EXPECT_EQ(live.largest_batch_now(), 12);
  EXPECT_FALSE(live.has_largest_batch_alone());
  EXPECT_FALSE(live.has_step_time());
  EXPECT_EQ(*engine_.estimated().model.onnx, "model");
  EXPECT_EQ(client_->List()->jobs_size(), 0);
  EXPECT_EQ(engine_.submits(), 0);
  engine_.FailSubmits(absl::InvalidArgumentError("model.onnx: no model"));
  EXPECT_EQ(client_->Estimate(spec).status(), absl::InvalidArgumentError("model.onnx: no model"));
}

TEST_F(ServiceTest, EstimatesForSimulatedDevices) {
  v1::JobSpec spec =
      *client::ReadSpecFile(spec_path_, {"model={zoo: mobilenet_v2}", "data={}", "batch_size=auto",
                                         "resources={ladder: {recompute: false}}"});
  const auto response = client_->Estimate(spec, {"sim:v100-16gb", "live", "sim:h200-141gb+vector"});
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->estimates_size(), 3);
  const v1::Estimate& small = response->estimates(0);
  const v1::Estimate& large = response->estimates(2);
  EXPECT_EQ(small.device(), "sim:v100-16gb");
  EXPECT_TRUE(small.simulated());
  EXPECT_EQ(small.constants_sha256().size(), 64u);
  EXPECT_EQ(response->estimates(1).device_name(), "fake");
  EXPECT_EQ(small.verdict(), v1::Estimate::VERDICT_FITS_NOW);
  EXPECT_EQ(small.batch_size() % 8, 0);
  EXPECT_LT(small.largest_batch_alone() - small.batch_size(), 8);
  EXPECT_GT(large.batch_size(), small.batch_size() * 5);
  EXPECT_GE(small.copies(), 1);
  EXPECT_LE(small.alone_bytes(), small.pool_bytes());
  EXPECT_GT(small.two_bytes(), small.alone_bytes());
  EXPECT_GT(small.step_time().nanos() + small.step_time().seconds(), 0);

  for (const std::string bad : {"cpu", "sim:", "sim:v100-16gb+both", "sim:/etc/passwd.yaml", ""}) {
    const absl::Status status = client_->Estimate(spec, {"live", bad}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("there are live and sim:a100-40gb"));
  }
  EXPECT_EQ(client_->Estimate(spec, std::vector<std::string>(17, "live")).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ServiceTest, JobsAreChangedAndEnded) {
  Submit();
  EXPECT_EQ(client_->Pause("1")->state(), v1::Job::STATE_PAUSED);
  EXPECT_EQ(client_->Resume("1")->state(), v1::Job::STATE_QUEUED);
  v1::UpdateRequest update;
  update.set_job("1");
  EXPECT_EQ(client_->Update(update).status().code(), absl::StatusCode::kInvalidArgument);
  update.set_learning_rate(0.25);
  engine_.rate_note = "the schedule goes by it";
  const auto updated = client_->Update(update);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->learning_rate(), 0.25);
  EXPECT_EQ(updated->message(), "the schedule goes by it");
  EXPECT_EQ(client_->Forget("1").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(client_->Cancel("1")->state(), v1::Job::STATE_CANCELLED);
  EXPECT_TRUE(client_->Forget("1").ok());
  EXPECT_EQ(client_->Get("1").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ServiceTest, ReportsReachTheClient) {
  engine_.memory.pool = MiB(1);
  engine_.memory.classes["free"] = MiB(1);
  EXPECT_EQ(client_->Memory()->classes().at("free"), 1 << 20);
  EXPECT_EQ(client_->Memory()->overlap().deep(), 3);
  EXPECT_EQ(client_->Device()->kind(), "fake");
  Submit();
  EXPECT_EQ(client_->Explain("1")->graph(), "bad \\xff name");
  EXPECT_EQ(client_->Explain("1")->sub_models(0).extent_bytes(), 10);
  EXPECT_EQ(client_->Explain("1")->solo_step_micros(), 1500);
  const v1::ExplainReport::Pair pair = client_->Explain("1")->pairs(0);
  EXPECT_EQ(pair.job(), "j-3");
  EXPECT_EQ(pair.state(), "turns");
  EXPECT_NEAR(pair.own() + pair.other(), 0.94, 1e-9);
  EXPECT_EQ(pair.retry_in_steps(), 64);
  EXPECT_EQ(pair.lost(), 1);
  EXPECT_EQ(pair.known_sub_models(), 40);
  EXPECT_EQ(pair.apart_sub_models(), 6);
  EXPECT_EQ(client_->Explain("1")->waiting(), 0.25);
  EXPECT_EQ(client_->Explain("2").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ServiceTest, ADirectoryOrMissingFileInASpecIsTheClientsError) {
  EXPECT_THAT(std::string(client::SubmitFile(client_.get(), spec_path_, {"model.onnx=none.onnx"})
                              .status()
                              .message()),
              HasSubstr("model.onnx: cannot open"));
  EXPECT_EQ(client::SubmitFile(client_.get(), spec_path_, {"model.onnx=."}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client::SubmitFile(client_.get(), spec_path_, {"data.train.file=host:/etc/passwd"})
                .status()
                .code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(engine_.submits(), 0);
}

// The standard health check, in its raw form: an empty request, and {status: SERVING}.
bool IsServing(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  grpc::ByteBuffer request, response;
  grpc::Status status;
  grpc::Slice empty;
  request = grpc::ByteBuffer(&empty, 1);
  const auto call =
      stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  grpc::Slice slice;
  return status.ok() && response.DumpToSingleSlice(&slice).ok() && slice.size() == 2 &&
         slice.begin()[0] == 8 && slice.begin()[1] == 1;
}

TEST(ServiceSocket, ClientsReachItOverASocketAndOverTcp) {
  TempDir dir;
  FakeEngine engine;
  const auto store = *Store::Open(dir.path() + "/state", {MiB(1), MiB(1)});
  Resolver resolver(store.get(), {}, MiB(1));
  Service service(&engine, store.get(), &resolver);
  const std::string path = dir.path() + "/s.sock";
  auto server = Server::Start(&service, {path, "127.0.0.1:0"});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string port = absl::StrCat("127.0.0.1:", (*server)->port());
  for (const std::string& address : {path, "unix:" + path, port, "http://" + port}) {
    const auto client = client::Client::Connect(address);
    ASSERT_TRUE(client.ok());
    EXPECT_EQ((*client)->Device()->kind(), "fake") << address;
  }
  EXPECT_TRUE(IsServing(grpc::CreateChannel(port, grpc::InsecureChannelCredentials())));
  EXPECT_EQ(Server::Start(&service, {"", port}).status().code(), absl::StatusCode::kUnavailable);
  (*server)->Shutdown(absl::ZeroDuration());
  const auto client = client::Client::Connect(path);
  const absl::Status gone = (*client)->Device().status();
  EXPECT_EQ(gone.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(gone.message()), HasSubstr("cannot reach ebbd at unix:"));
  EXPECT_FALSE(client::Client::Connect("nonsense").ok());
}

}  // namespace
}  // namespace ebb::daemon
