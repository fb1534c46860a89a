// The gRPC service: decodes, calls the engine or the store, encodes. Calls come on gRPC's threads;
// a call whose client has gone ends within a fraction of a second and leaves nothing behind.
#pragma once

#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "daemon/resolve.h"
#include "daemon/store.h"
#include "ebb/v1/service.grpc.pb.h"
#include "runtime/engine.h"

namespace ebb::daemon {

class Service final : public v1::Ebb::Service {
 public:
  // All three must outlive the service.
  Service(runtime::Engine* engine, Store* store, Resolver* resolver)
      : engine_(engine), store_(store), resolver_(resolver) {}

  grpc::Status Submit(grpc::ServerContext*, const v1::SubmitRequest*, v1::Job*) override;
  grpc::Status Estimate(grpc::ServerContext*, const v1::EstimateRequest*,
                        v1::EstimateResponse*) override;
  grpc::Status Predict(grpc::ServerContext*, const v1::PredictRequest*,
                       v1::PredictResponse*) override;
  grpc::Status ShardEmbeddings(grpc::ServerContext*, const v1::ShardEmbeddingsRequest*,
                               v1::ShardEmbeddingsResponse*) override;
  grpc::Status Calibrate(grpc::ServerContext*, const v1::CalibrateRequest*,
                         v1::CalibrateResponse*) override;
  grpc::Status Get(grpc::ServerContext*, const v1::GetRequest*, v1::Job*) override;
  grpc::Status List(grpc::ServerContext*, const v1::ListRequest*, v1::ListResponse*) override;
  grpc::Status Watch(grpc::ServerContext*, const v1::WatchRequest*,
                     grpc::ServerWriter<v1::WatchResponse>*) override;
  grpc::Status Update(grpc::ServerContext*, const v1::UpdateRequest*, v1::Job*) override;
  grpc::Status Cancel(grpc::ServerContext*, const v1::CancelRequest*, v1::Job*) override;
  grpc::Status Pause(grpc::ServerContext*, const v1::PauseRequest*, v1::Job*) override;
  grpc::Status Resume(grpc::ServerContext*, const v1::ResumeRequest*, v1::Job*) override;
  grpc::Status Forget(grpc::ServerContext*, const v1::ForgetRequest*, v1::ForgetResponse*) override;

  grpc::Status Put(grpc::ServerContext*, grpc::ServerReader<v1::PutRequest>*,
                   v1::StoredObject*) override;
  grpc::Status ListStored(grpc::ServerContext*, const v1::ListStoredRequest*,
                          v1::ListStoredResponse*) override;
  grpc::Status RemoveStored(grpc::ServerContext*, const v1::RemoveStoredRequest*,
                            v1::RemoveStoredResponse*) override;
  grpc::Status Fetch(grpc::ServerContext*, const v1::FetchRequest*,
                     grpc::ServerWriter<v1::FetchResponse>*) override;

  grpc::Status Feed(grpc::ServerContext*,
                    grpc::ServerReaderWriter<v1::FeedResponse, v1::FeedRequest>*) override;

  grpc::Status Memory(grpc::ServerContext*, const v1::MemoryRequest*, v1::MemoryReport*) override;
  grpc::Status Device(grpc::ServerContext*, const v1::DeviceRequest*, v1::DeviceReport*) override;
  grpc::Status Explain(grpc::ServerContext*, const v1::ExplainRequest*,
                       v1::ExplainReport*) override;

 private:
  struct Keyed {
    std::string spec_hash;
    JobId job;  // invalid while its submit is going on
  };

  // "j-17", "17" or a unique name. NotFound, InvalidArgument (ambiguous).
  absl::StatusOr<JobId> FindJob(absl::string_view reference) const;
  // Of a request that names a job and that this version understands.
  template <class Request>
  absl::StatusOr<JobId> JobOf(const Request& request) const;
  absl::StatusOr<v1::Job> Info(JobId job) const;
  absl::StatusOr<JobId> SubmitNew(const grpc::ServerContext& context, const v1::JobSpec& spec);
  absl::StatusOr<JobId> SubmitKeyed(const grpc::ServerContext& context, const v1::JobSpec& spec,
                                    const std::string& key);
  absl::Status PredictTraining(const grpc::ServerContext& context,
                               const v1::PredictRequest& request,
                               v1::PredictResponse* response) const;
  // An action on a job that answers with its state after it.
  template <class Request, class Action>
  grpc::Status Act(const Request& request, v1::Job* response, Action action) const;
  absl::Status WatchJob(const grpc::ServerContext& context, JobId job, int64_t from,
                        grpc::ServerWriter<v1::WatchResponse>* writer) const;
  absl::Status FeedJob(grpc::ServerContext* context,
                       grpc::ServerReaderWriter<v1::FeedResponse, v1::FeedRequest>* stream) const;
  absl::StatusOr<ObjectInfo> ReceiveObject(grpc::ServerReader<v1::PutRequest>* reader);
  absl::StatusOr<std::string> ResultFile(JobId job, v1::FetchRequest::Format format,
                                         v1::FetchRequest::State state) const;

  runtime::Engine* const engine_;
  Store* const store_;
  Resolver* const resolver_;
  mutable Mutex mu_;
  CondVar keyed_done_;
  absl::flat_hash_map<std::string, Keyed> keyed_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<JobId, v1::JobSpec> specs_ ABSL_GUARDED_BY(mu_);  // as they were submitted
};

}  // namespace ebb::daemon
