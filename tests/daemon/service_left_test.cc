// Clients that leave before their answer.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/daemon/service_fixture.h"

namespace ebb::daemon {
namespace {

TEST_F(ServiceTest, AJobWhoseClientLeavesBeforeItsAnswerIsCancelled) {
  Submit();  // stores the files
  v1::SubmitRequest request;
  *request.mutable_spec() = *client::ReadSpecFile(spec_path_, {});
  request.mutable_spec()->mutable_model()->set_onnx("store:m.onnx");
  request.mutable_spec()->mutable_data()->mutable_train()->set_file("store:d.csv");
  for (const bool keyed : {false, true}) {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    v1::Job job;
    grpc::Status status;
    void* tag = nullptr;
    bool ok = false;
    engine_.before_submit = [&] {
      context.TryCancel();
      queue.Next(&tag, &ok);
    };
    if (keyed) request.set_idempotency_key("key");
    const auto stub = v1::Ebb::NewStub(channel_);
    const auto call = stub->AsyncSubmit(&context, request, &queue);
    call->Finish(&job, &status, nullptr);
    const std::string id = keyed ? "j-3" : "j-2";
    Await([&] { return client_->Get(id).ok(); });
    if (keyed) {
      engine_.before_submit = nullptr;
      EXPECT_EQ(Submit({}, "other").id(), "j-4");
      EXPECT_EQ(client_->Get(id)->state(), v1::Job::STATE_QUEUED) << "it can ask again by its key";
    } else {
      Await([&] { return client_->Get(id)->state() == v1::Job::STATE_CANCELLED; });
    }
    EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  }
}

TEST_F(ServiceTest, WhoPlansAJobLearnsThatItsClientHasLeft) {
  Submit();  // stores the files
  v1::SubmitRequest request;
  *request.mutable_spec() = *client::ReadSpecFile(spec_path_, {});
  request.mutable_spec()->mutable_model()->set_onnx("store:m.onnx");
  request.mutable_spec()->mutable_data()->mutable_train()->set_file("store:d.csv");
  grpc::ClientContext context;
  std::atomic<bool> wanted = false, stopped = false;
  engine_.planning = [&](const runtime::JobSpec& spec) {
    wanted = spec.abandoned != nullptr && !spec.abandoned();
    context.TryCancel();
    if (wanted) Await([&] { return spec.abandoned(); });
    stopped = true;
  };
  v1::Job job;
  EXPECT_EQ(v1::Ebb::NewStub(channel_)->Submit(&context, request, &job).error_code(),
            grpc::StatusCode::CANCELLED);
  Await([&] { return stopped.load(); });
  EXPECT_TRUE(wanted);
}

}  // namespace
}  // namespace ebb::daemon
