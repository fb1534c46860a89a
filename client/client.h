// The C++ client: one method for each call of the service, with absl::Status, and files by chunks.
// Thread-safe. Unavailable: the daemon cannot be reached; the message says where it was sought.
#pragma once

#include <grpcpp/channel.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ebb/v1/service.grpc.pb.h"

namespace ebb::client {

// What a file's name becomes as the name of a stored object: other characters than letters, digits,
// '.', '_' and '-' become '_', and it ends after 128.
std::string ObjectName(absl::string_view name);

class Client {
 public:
  // "unix:/path", "/path", "host:port" (with or without http://), or "" = $EBB_SERVER or else the
  // default socket. Waits up to two seconds for a daemon that has just been started; that there is
  // none is the first call's error.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(absl::string_view address);
  // On a channel of the caller's, such as an in-process one. `address` is for messages.
  Client(std::shared_ptr<grpc::Channel> channel, std::string address);

  absl::StatusOr<v1::Job> Submit(const v1::JobSpec& spec, const std::string& idempotency_key = "");
  // What Submit would say; `devices`: "live", "sim:PROFILE"; none: live.
  absl::StatusOr<v1::EstimateResponse> Estimate(const v1::JobSpec& spec,
                                                const std::vector<std::string>& devices = {});
  // How long training would take on other GPUs; which rank should hold which embedding table.
  absl::StatusOr<v1::PredictResponse> Predict(const v1::PredictRequest& request);
  absl::StatusOr<v1::ShardEmbeddingsResponse> ShardEmbeddings(
      const v1::ShardEmbeddingsRequest& request);
  // A model of kernels from samples of them.
  absl::StatusOr<v1::CalibrateResponse> Calibrate(const v1::CalibrateRequest& request);
  absl::StatusOr<v1::Job> Get(const std::string& job);
  absl::StatusOr<v1::ListResponse> List(const std::map<std::string, std::string>& labels = {});
  // Calls `on_update` for every message until the job has ended or it returns false.
  absl::Status Watch(const std::string& job, int64_t from_point,
                     const std::function<bool(const v1::WatchResponse&)>& on_update);
  absl::StatusOr<v1::Job> Update(const v1::UpdateRequest& request);
  absl::StatusOr<v1::Job> Cancel(const std::string& job);
  absl::StatusOr<v1::Job> Pause(const std::string& job);
  absl::StatusOr<v1::Job> Resume(const std::string& job);
  absl::Status Forget(const std::string& job);

  struct PutOutcome {
    v1::StoredObject object;
    bool sent = false;  // false: the daemon had these bytes already
  };
  // Hashes the file and sends it unless its content is stored already. `name`: "" = none.
  absl::StatusOr<PutOutcome> PutFile(const std::string& path, v1::ObjectKind kind,
                                     const std::string& name);
  absl::StatusOr<v1::ListStoredResponse> ListStored(
      v1::ObjectKind kind = v1::OBJECT_KIND_UNSPECIFIED, const std::string& handle = "");
  absl::StatusOr<v1::StoredObject> RemoveStored(const std::string& reference);
  // Gives the file's bytes to `sink` in order, and checks their number and hash at the end.
  absl::StatusOr<v1::FetchResponse::Header> Fetch(
      const std::string& job, v1::FetchRequest::Format format, v1::FetchRequest::State state,
      const std::function<absl::Status(absl::string_view)>& sink);

  // The call itself; FeedJob (client/feed.h) is what feeds a job. `context` must outlive it.
  using FeedStream = grpc::ClientReaderWriterInterface<v1::FeedRequest, v1::FeedResponse>;
  std::unique_ptr<FeedStream> Feed(grpc::ClientContext* context) { return stub_->Feed(context); }
  // What a call's end means to people.
  absl::Status Result(const grpc::Status& status) const;

  absl::StatusOr<v1::MemoryReport> Memory();
  absl::StatusOr<v1::DeviceReport> Device();
  absl::StatusOr<v1::ExplainReport> Explain(const std::string& job);

  const std::string& address() const { return address_; }

 private:
  absl::StatusOr<v1::StoredObject> Send(int fd, const std::string& path,
                                        const v1::PutRequest::Header& header);

  const std::string address_;
  const std::unique_ptr<v1::Ebb::Stub> stub_;
};

}  // namespace ebb::client
