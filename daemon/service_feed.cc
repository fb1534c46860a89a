// The call Feed: a client pushes the batches of a job.
#include "base/status.h"
#include "daemon/feed_session.h"
#include "daemon/service.h"
#include "daemon/supported.h"
#include "daemon/wire.h"
#include "proto/status.h"

namespace ebb::daemon {

absl::Status Service::FeedJob(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<v1::FeedResponse, v1::FeedRequest>* stream) const {
  v1::FeedRequest message;
  if (!stream->Read(&message) || !message.has_header()) {
    return absl::InvalidArgumentError("a feed begins with its header");
  }
  EBB_RETURN_IF_ERROR(CheckKnown(message));
  EBB_ASSIGN_OR_RETURN(const JobId job, FindJob(message.header().job()));
  EBB_ASSIGN_OR_RETURN(std::shared_ptr<runtime::Feed> feed, engine_->FeedOf(job));
  FeedSession session(context, stream, JobLabel(job), std::move(feed));
  return session.Run();
}

grpc::Status Service::Feed(grpc::ServerContext* context,
                           grpc::ServerReaderWriter<v1::FeedResponse, v1::FeedRequest>* stream) {
  return proto::ToGrpc(FeedJob(context, stream));
}

}  // namespace ebb::daemon
