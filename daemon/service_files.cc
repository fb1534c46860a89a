// The calls of the service that move files.
#include <string>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/status.h"
#include "daemon/service.h"
#include "daemon/supported.h"
#include "daemon/wire.h"
#include "model/import.h"
#include "model/safetensors.h"
#include "proto/address.h"
#include "proto/names.h"
#include "proto/status.h"

namespace ebb::daemon {

absl::StatusOr<ObjectInfo> Service::ReceiveObject(grpc::ServerReader<v1::PutRequest>* reader) {
  v1::PutRequest message;
  if (!reader->Read(&message) || !message.has_header()) {
    return absl::InvalidArgumentError("an upload begins with its header");
  }
  EBB_RETURN_IF_ERROR(CheckKnown(message));
  const v1::PutRequest::Header& header = message.header();
  ObjectInfo info;
  info.sha256 = header.sha256();
  info.name = header.name();
  info.bytes = Bytes(header.bytes());
  if (header.kind() != v1::OBJECT_KIND_UNSPECIFIED) {
    info.kind = proto::ShortName(*v1::ObjectKind_descriptor(), static_cast<int>(header.kind()));
  }
  EBB_ASSIGN_OR_RETURN(const auto upload, store_->Begin(std::move(info)));
  while (reader->Read(&message)) {
    if (message.part_case() != v1::PutRequest::kChunk) {
      return absl::InvalidArgumentError("after its header an upload is all chunks");
    }
    EBB_RETURN_IF_ERROR(upload->Write(message.chunk()));
  }
  // A client that died ends the stream too: then bytes are missing, and nothing is kept.
  return upload->Commit();
}

grpc::Status Service::Put(grpc::ServerContext*, grpc::ServerReader<v1::PutRequest>* reader,
                          v1::StoredObject* response) {
  const auto stored = ReceiveObject(reader);
  if (!stored.ok()) return proto::ToGrpc(stored.status());
  Log(LogLevel::kInfo, "service: stored sha256:%s, %d bytes", stored->sha256,
      stored->bytes.count());
  *response = ToWire(*stored);
  return grpc::Status::OK;
}

grpc::Status Service::ListStored(grpc::ServerContext*, const v1::ListStoredRequest* request,
                                 v1::ListStoredResponse* response) {
  if (const absl::Status status = CheckKnown(*request); !status.ok()) return proto::ToGrpc(status);
  if (!request->handle().empty()) {
    const auto info = store_->Find(request->handle());
    if (!info.ok() && info.status().code() != absl::StatusCode::kNotFound) {
      return proto::ToGrpc(info.status());
    }
    if (info.ok()) *response->add_objects() = ToWire(*info);
    return grpc::Status::OK;
  }
  for (const ObjectInfo& info : store_->List()) {
    v1::StoredObject object = ToWire(info);
    if (request->kind() == v1::OBJECT_KIND_UNSPECIFIED || request->kind() == object.kind()) {
      *response->add_objects() = std::move(object);
    }
  }
  return grpc::Status::OK;
}

grpc::Status Service::RemoveStored(grpc::ServerContext*, const v1::RemoveStoredRequest* request,
                                   v1::RemoveStoredResponse* response) {
  if (const absl::Status status = CheckKnown(*request); !status.ok()) return proto::ToGrpc(status);
  const auto removed = store_->Remove(request->handle());
  if (!removed.ok()) return proto::ToGrpc(removed.status());
  *response->mutable_removed() = ToWire(*removed);
  return grpc::Status::OK;
}

namespace {

// The state that is asked for, where the job has kept it.
absl::StatusOr<std::shared_ptr<const runtime::JobResult>> StateOf(
    std::shared_ptr<const runtime::JobResult> result, v1::FetchRequest::State state) {
  using runtime::Keep;
  const bool best = state == v1::FetchRequest::STATE_BEST;
  if (state == v1::FetchRequest::STATE_UNSPECIFIED) return result;
  if (best && result->keep != Keep::kLast) return result;
  if (!best && result->keep != Keep::kBest) return result->last ? result->last : result;
  return absl::FailedPreconditionError(
      absl::StrCat("the job has kept its ", best ? "last" : "best", " state only; submit it with ",
                   "checkpoint: {keep: [best, last]} to have both"));
}

}  // namespace

absl::StatusOr<std::string> Service::ResultFile(JobId job, v1::FetchRequest::Format format,
                                                v1::FetchRequest::State state) const {
  EBB_ASSIGN_OR_RETURN(auto result, engine_->Result(job));
  if (!result->predictions.empty()) {
    if (format == v1::FetchRequest::FORMAT_ONNX || state != v1::FetchRequest::STATE_UNSPECIFIED) {
      return absl::FailedPreconditionError(absl::StrCat(
          JobLabel(job), " has predicted: its result are outputs, as safetensors, not weights"));
    }
    return model::WriteSafetensors(result->predictions, {{"format", "pt"}});
  }
  EBB_ASSIGN_OR_RETURN(result, StateOf(std::move(result), state));
  if (format != v1::FetchRequest::FORMAT_ONNX) {
    return model::WriteSafetensors(result->weights, {{"format", "pt"}});
  }
  if (result->onnx == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        JobLabel(job), " was not submitted as an ONNX file; fetch its weights as safetensors"));
  }
  return model::ExportOnnx(*result->onnx, result->weights);
}

grpc::Status Service::Fetch(grpc::ServerContext*, const v1::FetchRequest* request,
                            grpc::ServerWriter<v1::FetchResponse>* writer) {
  if (const absl::Status status = CheckKnown(*request); !status.ok()) return proto::ToGrpc(status);
  const absl::StatusOr<JobId> job = FindJob(request->job());
  if (!job.ok()) return proto::ToGrpc(job.status());
  const bool onnx = request->format() == v1::FetchRequest::FORMAT_ONNX;
  const auto file = ResultFile(*job, request->format(), request->state());
  if (!file.ok()) return proto::ToGrpc(file.status());
  v1::FetchResponse message;
  message.mutable_header()->set_bytes(static_cast<int64_t>(file->size()));
  message.mutable_header()->set_sha256(Sha256Hex(*file));
  message.mutable_header()->set_file_name(
      absl::StrCat(JobLabel(*job), onnx ? ".onnx" : ".safetensors"));
  bool alive = writer->Write(message);
  for (size_t at = 0; alive && at < file->size(); at += proto::kChunkBytes) {
    message.set_chunk(file->substr(at, proto::kChunkBytes));
    alive = writer->Write(message);
  }
  return alive ? grpc::Status::OK : proto::ToGrpc(absl::CancelledError("the client has gone"));
}

}  // namespace ebb::daemon
