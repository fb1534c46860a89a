// The call Feed: a client pushes the batches of a job.
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "daemon/feed_session.h"
#include "daemon/service.h"
#include "daemon/supported.h"
#include "daemon/wire.h"
#include "proto/status.h"

namespace ebb::daemon {
namespace {

constexpr size_t kMostClientBytes = 256;
// How long a feed may be held by a client that has just gone.
constexpr absl::Duration kGoing = absl::Seconds(1);

}  // namespace

absl::Status Service::FeedJob(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<v1::FeedResponse, v1::FeedRequest>* stream) const {
  v1::FeedRequest message;
  if (!stream->Read(&message) || !message.has_header()) {
    return absl::InvalidArgumentError("a feed begins with its header");
  }
  EBB_RETURN_IF_ERROR(CheckKnown(message));
  const v1::FeedRequest::Header& header = message.header();
  if (header.client().size() > kMostClientBytes) {
    return absl::InvalidArgumentError(absl::StrCat("header.client has ", header.client().size(),
                                                   " bytes; at most ", kMostClientBytes));
  }
  EBB_ASSIGN_OR_RETURN(const JobId job, FindJob(header.job()));
  EBB_ASSIGN_OR_RETURN(std::shared_ptr<runtime::Feed> feed, engine_->FeedOf(job));
  const auto ticket =
      feed->Open({.name = header.client(), .take_over = header.take_over()}, absl::Now() + kGoing);
  if (!ticket.ok()) return Annotate(ticket.status(), JobLabel(job));
  FeedSession session(context, stream, JobLabel(job), std::move(feed), *ticket);
  return session.Run();
}

grpc::Status Service::Feed(grpc::ServerContext* context,
                           grpc::ServerReaderWriter<v1::FeedResponse, v1::FeedRequest>* stream) {
  return proto::ToGrpc(FeedJob(context, stream));
}

}  // namespace ebb::daemon
