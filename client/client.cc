#include "client/client.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/sha256.h"
#include "base/status.h"
#include "client/local_file.h"
#include "proto/address.h"
#include "proto/status.h"
#include "proto/text_fields.h"

namespace ebb::client {
namespace {

constexpr int kRetryMs = 100;
constexpr std::chrono::seconds kPatience(2);

// Reads the whole file in chunks.
absl::Status ReadChunks(int fd, const std::string& path,
                        const std::function<bool(absl::string_view)>& use) {
  if (lseek(fd, 0, SEEK_SET) != 0) return LocalFileError(errno, "cannot read", path);
  std::string buffer(proto::kChunkBytes, '\0');
  while (true) {
    const ssize_t count = read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return LocalFileError(errno, "cannot read", path);
    if (count == 0 || !use(absl::string_view(buffer.data(), static_cast<size_t>(count)))) break;
  }
  return absl::OkStatus();
}

// Channels take a port modulo 65536.
absl::Status CheckPort(const std::string& target) {
  uint32_t port = 0;
  const absl::string_view text = absl::string_view(target).substr(target.rfind(':') + 1);
  if (absl::SimpleAtoi(text, &port) && port >= 1 && port <= 65535) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", target, "' is no address: its port is not a number from 1 to 65535"));
}

}  // namespace

std::string ObjectName(absl::string_view name) {
  std::string result(name.substr(0, 128));
  for (char& c : result) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
  }
  return result;
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(absl::string_view address) {
  std::string target(address);
  if (target.empty()) {
    const char* server = std::getenv("EBB_SERVER");
    target = server != nullptr && server[0] != '\0' ? server : proto::DefaultSocketPath();
  }
  absl::string_view rest = target;
  absl::ConsumePrefix(&rest, "http://");
  if (absl::StartsWith(rest, "/")) {
    target = absl::StrCat("unix:", rest);
  } else if (absl::StartsWith(rest, "unix:")) {
    target = std::string(rest);
  } else if (absl::StrContains(rest, ":")) {
    target = std::string(rest);
    EBB_RETURN_IF_ERROR(CheckPort(target));
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("'", target, "' is no address: give a socket's path or HOST:PORT"));
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(proto::kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kRetryMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kRetryMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kRetryMs);
  auto channel = grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
  // A daemon started a moment ago may not listen yet; the first call says what is wrong if it never
  // does.
  (void)channel->WaitForConnected(std::chrono::system_clock::now() + kPatience);
  return std::make_unique<Client>(std::move(channel), target);
}

Client::Client(std::shared_ptr<grpc::Channel> channel, std::string address)
    : address_(std::move(address)), stub_(v1::Ebb::NewStub(channel)) {}

absl::Status Client::Result(const grpc::Status& status) const {
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    return absl::UnavailableError(absl::StrCat("cannot reach ebbd at ", address_,
                                               ": is it running? (", status.error_message(), ")"));
  }
  // What gRPC says of a service that is not there, and of an HTTP server of another kind.
  const bool unknown_call =
      status.error_code() == grpc::StatusCode::UNIMPLEMENTED &&
      (status.error_message().empty() || absl::StrContains(status.error_message(), "http2 header"));
  if (unknown_call) {
    return absl::UnavailableError(
        absl::StrCat("what answers at ", address_, " is no ebbd that knows this call"));
  }
  return proto::FromGrpc(status);
}

#define EBB_CALL(Method, Response, request)                                 \
  EBB_RETURN_IF_ERROR(proto::CheckUtf8(request));                           \
  grpc::ClientContext context;                                              \
  Response response;                                                        \
  EBB_RETURN_IF_ERROR(Result(stub_->Method(&context, request, &response))); \
  return response

absl::StatusOr<v1::Job> Client::Submit(const v1::JobSpec& spec,
                                       const std::string& idempotency_key) {
  v1::SubmitRequest request;
  *request.mutable_spec() = spec;
  request.set_idempotency_key(idempotency_key);
  EBB_CALL(Submit, v1::Job, request);
}

absl::StatusOr<v1::EstimateResponse> Client::Estimate(const v1::JobSpec& spec,
                                                      const std::vector<std::string>& devices) {
  v1::EstimateRequest request;
  *request.mutable_spec() = spec;
  request.mutable_devices()->Add(devices.begin(), devices.end());
  EBB_CALL(Estimate, v1::EstimateResponse, request);
}

absl::StatusOr<v1::PredictResponse> Client::Predict(const v1::PredictRequest& request) {
  EBB_CALL(Predict, v1::PredictResponse, request);
}

absl::StatusOr<v1::ShardEmbeddingsResponse> Client::ShardEmbeddings(
    const v1::ShardEmbeddingsRequest& request) {
  EBB_CALL(ShardEmbeddings, v1::ShardEmbeddingsResponse, request);
}

absl::StatusOr<v1::CalibrateResponse> Client::Calibrate(const v1::CalibrateRequest& request) {
  EBB_CALL(Calibrate, v1::CalibrateResponse, request);
}

absl::StatusOr<v1::Job> Client::Get(const std::string& job) {
  v1::GetRequest request;
  request.set_job(job);
  EBB_CALL(Get, v1::Job, request);
}

absl::StatusOr<v1::ListResponse> Client::List(const std::map<std::string, std::string>& labels) {
  v1::ListRequest request;
  request.mutable_labels()->insert(labels.begin(), labels.end());
  EBB_CALL(List, v1::ListResponse, request);
}

absl::Status Client::Watch(const std::string& job, int64_t from_point,
                           const std::function<bool(const v1::WatchResponse&)>& on_update) {
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_job(job);
  request.set_from_point(from_point);
  EBB_RETURN_IF_ERROR(proto::CheckUtf8(request));
  const auto reader = stub_->Watch(&context, request);
  v1::WatchResponse response;
  bool stopped = false;
  while (!stopped && reader->Read(&response)) stopped = !on_update(response);
  if (stopped) context.TryCancel();
  const grpc::Status status = reader->Finish();
  return stopped ? absl::OkStatus() : Result(status);
}

absl::StatusOr<v1::Job> Client::Update(const v1::UpdateRequest& request) {
  EBB_CALL(Update, v1::Job, request);
}

absl::StatusOr<v1::Job> Client::Cancel(const std::string& job) {
  v1::CancelRequest request;
  request.set_job(job);
  EBB_CALL(Cancel, v1::Job, request);
}

absl::StatusOr<v1::Job> Client::Pause(const std::string& job) {
  v1::PauseRequest request;
  request.set_job(job);
  EBB_CALL(Pause, v1::Job, request);
}

absl::StatusOr<v1::Job> Client::Resume(const std::string& job) {
  v1::ResumeRequest request;
  request.set_job(job);
  EBB_CALL(Resume, v1::Job, request);
}

absl::Status Client::Forget(const std::string& job) {
  grpc::ClientContext context;
  v1::ForgetRequest request;
  request.set_job(job);
  v1::ForgetResponse response;
  EBB_RETURN_IF_ERROR(proto::CheckUtf8(request));
  return Result(stub_->Forget(&context, request, &response));
}

absl::StatusOr<v1::StoredObject> Client::Send(int fd, const std::string& path,
                                              const v1::PutRequest::Header& header) {
  grpc::ClientContext context;
  v1::StoredObject stored;
  const auto writer = stub_->Put(&context, &stored);
  v1::PutRequest message;
  *message.mutable_header() = header;
  // A write fails when the daemon has refused; Finish() says why.
  bool alive = writer->Write(message);
  if (alive) {
    const absl::Status read = ReadChunks(fd, path, [&](absl::string_view chunk) {
      message.set_chunk(chunk.data(), chunk.size());
      alive = writer->Write(message);
      return alive;
    });
    if (!read.ok()) {
      context.TryCancel();
      writer->Finish();
      return read;
    }
  }
  if (alive) writer->WritesDone();
  EBB_RETURN_IF_ERROR(Result(writer->Finish()));
  return stored;
}

absl::StatusOr<Client::PutOutcome> Client::PutFile(const std::string& path, v1::ObjectKind kind,
                                                   const std::string& name) {
  EBB_ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path));
  absl::Cleanup closer = [fd] { close(fd); };
  Sha256 hash;
  int64_t bytes = 0;
  EBB_RETURN_IF_ERROR(ReadChunks(fd, path, [&](absl::string_view chunk) {
    hash.Update(chunk);
    bytes += static_cast<int64_t>(chunk.size());
    return true;
  }));
  v1::PutRequest::Header header;
  header.set_kind(kind);
  header.set_bytes(bytes);
  header.set_sha256(hash.HexDigest());
  header.set_name(ObjectName(name));
  EBB_ASSIGN_OR_RETURN(
      const v1::ListStoredResponse known,
      ListStored(v1::OBJECT_KIND_UNSPECIFIED, absl::StrCat("sha256:", header.sha256())));
  // A name that is new to the daemon needs the call; the bytes are the same.
  if (known.objects_size() == 1 &&
      (header.name().empty() || known.objects(0).name() == header.name())) {
    return PutOutcome{known.objects(0), false};
  }
  EBB_ASSIGN_OR_RETURN(v1::StoredObject stored, Send(fd, path, header));
  return PutOutcome{std::move(stored), true};
}

absl::StatusOr<v1::ListStoredResponse> Client::ListStored(v1::ObjectKind kind,
                                                          const std::string& handle) {
  v1::ListStoredRequest request;
  request.set_kind(kind);
  request.set_handle(handle);
  EBB_CALL(ListStored, v1::ListStoredResponse, request);
}

absl::StatusOr<v1::StoredObject> Client::RemoveStored(const std::string& reference) {
  grpc::ClientContext context;
  v1::RemoveStoredRequest request;
  request.set_handle(reference);
  v1::RemoveStoredResponse response;
  EBB_RETURN_IF_ERROR(proto::CheckUtf8(request));
  EBB_RETURN_IF_ERROR(Result(stub_->RemoveStored(&context, request, &response)));
  return response.removed();
}

absl::StatusOr<v1::FetchResponse::Header> Client::Fetch(
    const std::string& job, v1::FetchRequest::Format format, v1::FetchRequest::State state,
    const std::function<absl::Status(absl::string_view)>& sink) {
  grpc::ClientContext context;
  v1::FetchRequest request;
  request.set_job(job);
  request.set_format(format);
  request.set_state(state);
  EBB_RETURN_IF_ERROR(proto::CheckUtf8(request));
  const auto reader = stub_->Fetch(&context, request);
  v1::FetchResponse message;
  v1::FetchResponse::Header header;
  Sha256 hash;
  int64_t bytes = 0;
  absl::Status status;
  while (status.ok() && reader->Read(&message)) {
    if (message.has_header()) {
      header = message.header();
      continue;
    }
    hash.Update(message.chunk());
    bytes += static_cast<int64_t>(message.chunk().size());
    status = sink(message.chunk());
  }
  if (!status.ok()) context.TryCancel();
  const grpc::Status finished = reader->Finish();
  EBB_RETURN_IF_ERROR(status);
  EBB_RETURN_IF_ERROR(Result(finished));
  if (bytes != header.bytes() || hash.HexDigest() != header.sha256()) {
    return absl::DataLossError("the bytes that came are not those that were announced");
  }
  return header;
}

absl::StatusOr<v1::MemoryReport> Client::Memory() {
  EBB_CALL(Memory, v1::MemoryReport, v1::MemoryRequest());
}

absl::StatusOr<v1::DeviceReport> Client::Device() {
  EBB_CALL(Device, v1::DeviceReport, v1::DeviceRequest());
}

absl::StatusOr<v1::ExplainReport> Client::Explain(const std::string& job) {
  v1::ExplainRequest request;
  request.set_job(job);
  EBB_CALL(Explain, v1::ExplainReport, request);
}

#undef EBB_CALL

}  // namespace ebb::client
