#include "daemon/service.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/status.h"
#include "daemon/supported.h"
#include "daemon/wire.h"
#include "proto/status.h"

namespace ebb::daemon {
namespace {

constexpr absl::Duration kCancelCheck = absl::Milliseconds(200);  // how long a gone watcher lingers
constexpr absl::Duration kWatchPause = absl::Milliseconds(20);    // at most 50 messages a second
constexpr int kPointsAMessage = 4096;

// The same spec always gives the same bytes: maps are written in the order of their keys.
std::string SpecHash(const v1::JobSpec& spec) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    spec.SerializeToCodedStream(&coded);
  }
  return Sha256Hex(bytes);
}

}  // namespace

absl::StatusOr<JobId> Service::FindJob(absl::string_view reference) const {
  if (reference.empty()) return absl::InvalidArgumentError("no job is named");
  absl::string_view digits = reference;
  absl::ConsumePrefix(&digits, "j-");
  int64_t number = -1;
  if (absl::SimpleAtoi(digits, &number) && number >= 0 && engine_->Get(JobId(number)).ok()) {
    return JobId(number);
  }
  std::vector<JobId> found;
  for (const runtime::JobInfo& info : engine_->List()) {
    if (info.name == reference) found.push_back(info.id);
  }
  if (found.size() == 1) return found[0];
  if (found.empty()) {
    return absl::NotFoundError(
        absl::StrCat("there is no job '", reference, "'; `ebb ps` lists them"));
  }
  std::string ids;
  for (JobId id : found) absl::StrAppend(&ids, ids.empty() ? "" : ", ", JobLabel(id));
  return absl::InvalidArgumentError(
      absl::StrCat("'", reference, "' is the name of ", found.size(), " jobs; say which: ", ids));
}

absl::StatusOr<v1::Job> Service::Info(JobId job) const {
  EBB_ASSIGN_OR_RETURN(const runtime::JobInfo info, engine_->Get(job));
  return ToWire(info);
}

absl::StatusOr<JobId> Service::SubmitNew(const grpc::ServerContext& context,
                                         const v1::JobSpec& spec) {
  EBB_ASSIGN_OR_RETURN(runtime::JobSpec native, JobSpecFromWire(spec, resolver_));
  native.abandoned = [&context] { return context.IsCancelled(); };
  EBB_ASSIGN_OR_RETURN(const JobId job, engine_->Submit(std::move(native)));
  MutexLock lock(&mu_);
  specs_[job] = spec;
  return job;
}

absl::StatusOr<JobId> Service::SubmitKeyed(const grpc::ServerContext& context,
                                           const v1::JobSpec& spec, const std::string& key) {
  if (key.size() > 256)
    return absl::InvalidArgumentError("idempotency_key has more than 256 bytes");
  const std::string hash = SpecHash(spec);
  {
    MutexLock lock(&mu_);
    for (auto it = keyed_.find(key); it != keyed_.end(); it = keyed_.find(key)) {
      if (it->second.spec_hash != hash) {
        return absl::AlreadyExistsError("idempotency_key was used with another job spec");
      }
      if (it->second.job.valid()) return it->second.job;
      keyed_done_.Wait(&mu_);  // the same submit is going on
    }
    keyed_[key] = {hash, JobId()};
  }
  absl::StatusOr<JobId> job = absl::InternalError("the submit did not end");
  try {
    job = SubmitNew(context, spec);
  } catch (const std::exception& error) {  // out of memory: the key must not stay taken
    job = absl::ResourceExhaustedError(absl::StrCat("cannot take the job: ", error.what()));
  }
  MutexLock lock(&mu_);
  if (job.ok()) {
    keyed_[key].job = *job;
  } else {
    keyed_.erase(key);
  }
  keyed_done_.SignalAll();
  return job;
}

grpc::Status Service::Submit(grpc::ServerContext* context, const v1::SubmitRequest* request,
                             v1::Job* response) {
  if (const absl::Status status = CheckKnown(*request); !status.ok()) return proto::ToGrpc(status);
  const bool keyed = !request->idempotency_key().empty();
  const absl::StatusOr<JobId> job =
      keyed ? SubmitKeyed(*context, request->spec(), request->idempotency_key())
            : SubmitNew(*context, request->spec());
  if (!job.ok()) return proto::ToGrpc(job.status());
  if (!keyed && context->IsCancelled()) {
    // Its client cannot know of it. With a key it can ask again.
    (void)engine_->Cancel(*job);
    return proto::ToGrpc(absl::CancelledError("the client has gone"));
  }
  auto info = Info(*job);
  if (!info.ok()) return proto::ToGrpc(info.status());
  Log(LogLevel::kInfo, "service: %s submitted", info->id());
  *response = *std::move(info);
  return grpc::Status::OK;
}

template <class Request>
absl::StatusOr<JobId> Service::JobOf(const Request& request) const {
  EBB_RETURN_IF_ERROR(CheckKnown(request));
  return FindJob(request.job());
}

template <class Request, class Action>
grpc::Status Service::Act(const Request& request, v1::Job* response, Action action) const {
  const absl::StatusOr<JobId> job = JobOf(request);
  if (!job.ok()) return proto::ToGrpc(job.status());
  if (const absl::Status status = action(*job); !status.ok()) return proto::ToGrpc(status);
  auto info = Info(*job);
  if (!info.ok()) return proto::ToGrpc(info.status());
  *response = *std::move(info);
  return grpc::Status::OK;
}

grpc::Status Service::Get(grpc::ServerContext*, const v1::GetRequest* request, v1::Job* response) {
  return Act(*request, response, [](JobId) { return absl::OkStatus(); });
}

grpc::Status Service::Cancel(grpc::ServerContext*, const v1::CancelRequest* request,
                             v1::Job* response) {
  return Act(*request, response, [this](JobId job) { return engine_->Cancel(job); });
}

grpc::Status Service::Pause(grpc::ServerContext*, const v1::PauseRequest* request,
                            v1::Job* response) {
  return Act(*request, response, [this](JobId job) { return engine_->Pause(job); });
}

grpc::Status Service::Resume(grpc::ServerContext*, const v1::ResumeRequest* request,
                             v1::Job* response) {
  return Act(*request, response, [this](JobId job) { return engine_->Resume(job); });
}

grpc::Status Service::Update(grpc::ServerContext*, const v1::UpdateRequest* request,
                             v1::Job* response) {
  std::string note;
  const grpc::Status status = Act(*request, response, [&](JobId job) -> absl::Status {
    EBB_ASSIGN_OR_RETURN(const runtime::JobUpdate update, UpdateFromWire(*request));
    return engine_->Update(job, update, &note);
  });
  if (!status.ok() || !request->has_learning_rate()) return status;
  const std::string end = request->has_stop() ? response->message() : "";
  response->set_message(absl::StrCat(note, note.empty() || end.empty() ? "" : "; ", end));
  return status;
}

grpc::Status Service::Forget(grpc::ServerContext*, const v1::ForgetRequest* request,
                             v1::ForgetResponse*) {
  const absl::StatusOr<JobId> job = JobOf(*request);
  if (!job.ok()) return proto::ToGrpc(job.status());
  if (const absl::Status status = engine_->Forget(*job); !status.ok()) return proto::ToGrpc(status);
  MutexLock lock(&mu_);
  specs_.erase(*job);
  absl::erase_if(keyed_, [&](const auto& entry) { return entry.second.job == *job; });
  return grpc::Status::OK;
}

grpc::Status Service::List(grpc::ServerContext*, const v1::ListRequest* request,
                           v1::ListResponse* response) {
  if (const absl::Status status = CheckKnown(*request); !status.ok()) return proto::ToGrpc(status);
  for (const runtime::JobInfo& info : engine_->List()) {
    const bool wanted =
        std::all_of(request->labels().begin(), request->labels().end(), [&](const auto& label) {
          const auto it = info.labels.find(label.first);
          return it != info.labels.end() && it->second == label.second;
        });
    if (wanted) *response->add_jobs() = ToWire(info);
  }
  return grpc::Status::OK;
}

absl::Status Service::WatchJob(const grpc::ServerContext& context, JobId job, int64_t from,
                               grpc::ServerWriter<v1::WatchResponse>* writer) const {
  EBB_ASSIGN_OR_RETURN(runtime::JobInfo info, engine_->Get(job));
  while (true) {
    // The points come after the state: once that is final, they are all there.
    const bool last = runtime::IsFinal(info.state);
    EBB_ASSIGN_OR_RETURN(const auto points, engine_->Metrics(job, static_cast<size_t>(from)));
    size_t sent = 0;
    do {
      v1::WatchResponse message;
      *message.mutable_job() = ToWire(info);
      for (int i = 0; i < kPointsAMessage && sent < points.size(); ++i, ++sent) {
        *message.add_points() = ToWire(points[sent]);
      }
      from += message.points_size();
      message.set_next_point(from);
      if (!writer->Write(message)) return absl::CancelledError("the watcher has gone");
    } while (sent < points.size());
    if (last) return absl::OkStatus();
    absl::SleepFor(kWatchPause);
    const uint64_t seen = info.version;
    do {
      if (context.IsCancelled()) return absl::CancelledError("the watcher has gone");
      EBB_ASSIGN_OR_RETURN(info, engine_->WaitForChange(job, seen, absl::Now() + kCancelCheck));
    } while (info.version == seen);
  }
}

grpc::Status Service::Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                            grpc::ServerWriter<v1::WatchResponse>* writer) {
  const absl::StatusOr<JobId> job = JobOf(*request);
  if (!job.ok()) return proto::ToGrpc(job.status());
  if (request->from_point() < 0) {
    return proto::ToGrpc(absl::InvalidArgumentError("from_point must not be negative"));
  }
  return proto::ToGrpc(WatchJob(*context, *job, request->from_point(), writer));
}

grpc::Status Service::Memory(grpc::ServerContext*, const v1::MemoryRequest* request,
                             v1::MemoryReport* response) {
  if (const absl::Status status = CheckKnown(*request); !status.ok()) return proto::ToGrpc(status);
  *response = ToWire(engine_->Memory(), engine_->Overlap());
  return grpc::Status::OK;
}

grpc::Status Service::Device(grpc::ServerContext*, const v1::DeviceRequest* request,
                             v1::DeviceReport* response) {
  if (const absl::Status status = CheckKnown(*request); !status.ok()) return proto::ToGrpc(status);
  *response = ToWire(engine_->Describe());
  return grpc::Status::OK;
}

grpc::Status Service::Explain(grpc::ServerContext*, const v1::ExplainRequest* request,
                              v1::ExplainReport* response) {
  const absl::StatusOr<JobId> job = JobOf(*request);
  if (!job.ok()) return proto::ToGrpc(job.status());
  const auto report = engine_->Explain(*job);
  if (!report.ok()) return proto::ToGrpc(report.status());
  *response = ToWire(*job, *report);
  return grpc::Status::OK;
}

}  // namespace ebb::daemon
