// Files over the service: uploads, stored objects, results.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status.h"
#include "model/safetensors.h"
#include "proto/address.h"
#include "tests/daemon/service_fixture.h"

namespace ebb::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(ServiceTest, MessagesCallFilesByTheirPaths) {
  files_.Write("bad.csv", "1,0\n2\n");
  const auto job = client::SubmitFile(client_.get(), spec_path_, {"data.train.file=bad.csv"});
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(job.status().message()),
              HasSubstr(files_.path() + "/bad.csv: csv line 2"));
  EXPECT_THAT(std::string(job.status().message()), testing::Not(HasSubstr("sha256:")));
}

TEST_F(ServiceTest, AStoreThatIsDamagedOrGoneIsNotTheClientsFault) {
  Submit();
  const std::string object = state_.path() + "/objects/" + Sha256Hex("model");
  std::ofstream(object) << "medal";  // as long as it was
  const auto damaged = client::SubmitFile(client_.get(), spec_path_);
  EXPECT_EQ(damaged.status().code(), absl::StatusCode::kDataLoss) << damaged.status();
  EXPECT_THAT(std::string(damaged.status().message()), HasSubstr("damaged on disk"));
  std::filesystem::remove(object);
  EXPECT_EQ(client::SubmitFile(client_.get(), spec_path_).status().code(),
            absl::StatusCode::kDataLoss);
  std::filesystem::remove_all(state_.path() + "/incoming");
  const auto put = client_->PutFile(files_.Write("new", "new"), v1::OBJECT_KIND_DATA, "");
  EXPECT_EQ(put.status().code(), absl::StatusCode::kInternal) << put.status();
  EXPECT_THAT(std::string(put.status().message()), HasSubstr("the daemon's state directory"));
}

TEST_F(ServiceTest, FilesOfManyChunksArriveWhole) {
  std::string bytes(static_cast<size_t>(5 * proto::kChunkBytes + 123), '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 13);
  const std::string path = files_.Write("big.bin", bytes);
  const auto outcome = client_->PutFile(path, v1::OBJECT_KIND_DATA, "big file");
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_TRUE(outcome->sent);
  EXPECT_EQ(outcome->object.handle(), "sha256:" + Sha256Hex(bytes));
  EXPECT_EQ(outcome->object.name(), "big_file");
  EXPECT_EQ(**resolver_.Read("store:big_file"), bytes);
  EXPECT_FALSE(client_->PutFile(path, v1::OBJECT_KIND_DATA, "big file")->sent);
  EXPECT_TRUE(client_->RemoveStored("store:big_file").ok());
  EXPECT_EQ(client_->RemoveStored("store:big_file").status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(client_->PutFile(files_.Write("empty", ""), v1::OBJECT_KIND_DATA, "").ok());
}

TEST_F(ServiceTest, UploadsBeyondTheLimitAreRefusedAtOnce) {
  const std::string path =
      files_.Write("huge.bin", std::string(static_cast<size_t>(17 << 20), 'x'));
  const auto outcome = client_->PutFile(path, v1::OBJECT_KIND_DATA, "");
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kResourceExhausted) << outcome.status();
  EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("--upload_limit"));
  EXPECT_EQ(PartialUploads(), 0u);
}

TEST_F(ServiceTest, AClientGoneInMidUploadLeavesNothing) {
  const auto stub = v1::Ebb::NewStub(channel_);
  grpc::ClientContext context;
  v1::StoredObject stored;
  auto writer = stub->Put(&context, &stored);
  v1::PutRequest message;
  message.mutable_header()->set_sha256(Sha256Hex(std::string(100, 'x')));
  message.mutable_header()->set_bytes(100);
  ASSERT_TRUE(writer->Write(message));
  message.set_chunk(std::string(50, 'x'));
  ASSERT_TRUE(writer->Write(message));
  Await([&] { return PartialUploads() == 1; });
  context.TryCancel();
  EXPECT_FALSE(writer->Finish().ok());
  Await([&] { return PartialUploads() == 0; });
  Await([&] { return store_->used() == Bytes(0); });
  EXPECT_TRUE(store_->List().empty());
}

TEST_F(ServiceTest, OddUploadsAreRefused) {
  const auto stub = v1::Ebb::NewStub(channel_);
  const auto put = [&](const std::vector<v1::PutRequest>& messages) {
    grpc::ClientContext context;
    v1::StoredObject stored;
    auto writer = stub->Put(&context, &stored);
    for (const auto& message : messages) writer->Write(message);
    writer->WritesDone();
    return writer->Finish().error_code();
  };
  v1::PutRequest header, chunk;
  header.mutable_header()->set_sha256(Sha256Hex("abc"));
  header.mutable_header()->set_bytes(3);
  chunk.set_chunk("abc");
  EXPECT_EQ(put({}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(put({chunk}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(put({header}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(put({header, header}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(put({header, chunk, chunk}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(put({header, chunk}), grpc::StatusCode::OK);
  header.mutable_header()->set_bytes(-1);
  EXPECT_EQ(put({header}), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServiceTest, FetchGivesTheStateThatIsAskedFor) {
  Submit();
  const auto state_of = [](float value) {
    runtime::JobResult result;
    result.weights["w"] = graph::HostTensor::Of<float>(graph::DType::kF32, {1}, {value});
    return result;
  };
  const auto fetch = [&](v1::FetchRequest::State state) -> absl::StatusOr<float> {
    std::string bytes;
    EBB_RETURN_IF_ERROR(client_
                            ->Fetch("1", v1::FetchRequest::FORMAT_SAFETENSORS, state,
                                    [&](absl::string_view chunk) {
                                      absl::StrAppend(&bytes, chunk);
                                      return absl::OkStatus();
                                    })
                            .status());
    EBB_ASSIGN_OR_RETURN(const auto tensors, model::ReadSafetensors(bytes));
    return tensors.at("w").as<float>()[0];
  };
  runtime::JobResult both = state_of(1);
  both.keep = runtime::Keep::kBestAndLast;
  both.last = std::make_shared<const runtime::JobResult>(state_of(2));
  engine_.result = std::make_shared<const runtime::JobResult>(both);
  engine_.End(JobId(1), runtime::JobState::kSucceeded);
  EXPECT_EQ(*fetch(v1::FetchRequest::STATE_UNSPECIFIED), 1);
  EXPECT_EQ(*fetch(v1::FetchRequest::STATE_BEST), 1);
  EXPECT_EQ(*fetch(v1::FetchRequest::STATE_LAST), 2);
  engine_.result = std::make_shared<const runtime::JobResult>(state_of(3));
  EXPECT_EQ(*fetch(v1::FetchRequest::STATE_LAST), 3);
  EXPECT_EQ(fetch(v1::FetchRequest::STATE_BEST).status().message(),
            "the job has kept its last state only; submit it with checkpoint: {keep: [best, last]} "
            "to have both");
}

TEST_F(ServiceTest, FetchGivesTheTrainedWeights) {
  Submit();
  runtime::JobResult result;
  result.weights["w"] =
      graph::HostTensor::Of<float>(graph::DType::kF32, {700000}, std::vector<float>(700000, 2.5f));
  engine_.result = std::make_shared<const runtime::JobResult>(result);
  std::string bytes;
  const auto sink = [&](absl::string_view chunk) {
    absl::StrAppend(&bytes, chunk);
    return absl::OkStatus();
  };
  EXPECT_EQ(client_
                ->Fetch("1", v1::FetchRequest::FORMAT_SAFETENSORS,
                        v1::FetchRequest::STATE_UNSPECIFIED, sink)
                .status()
                .code(),
            absl::StatusCode::kFailedPrecondition);
  engine_.End(JobId(1), runtime::JobState::kSucceeded);
  const auto header = client_->Fetch("1", v1::FetchRequest::FORMAT_SAFETENSORS,
                                     v1::FetchRequest::STATE_UNSPECIFIED, sink);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->sha256(), Sha256Hex(bytes));
  EXPECT_EQ(header->file_name(), "j-1.safetensors");
  const auto back = model::ReadSafetensors(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->at("w").as<float>()[699999], 2.5f);
  EXPECT_EQ(
      client_->Fetch("1", v1::FetchRequest::FORMAT_ONNX, v1::FetchRequest::STATE_UNSPECIFIED, sink)
          .status()
          .code(),
      absl::StatusCode::kFailedPrecondition)
      << "it was no ONNX file";
  const absl::Status stop = absl::DataLossError("disk full");
  EXPECT_EQ(
      client_
          ->Fetch("1", v1::FetchRequest::FORMAT_SAFETENSORS, v1::FetchRequest::STATE_UNSPECIFIED,
                  [&](absl::string_view) { return stop; })
          .status(),
      stop);
}

}  // namespace
}  // namespace ebb::daemon
