#include "daemon/feed_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "daemon/supported.h"

namespace ebb::daemon {
namespace {

constexpr absl::Duration kCancelCheck = absl::Milliseconds(200);  // how long a gone client lingers
// How long a client may take to hear what it was told last before the call is broken off.
constexpr absl::Duration kPatience = absl::Seconds(2);

}  // namespace

FeedSession::FeedSession(grpc::ServerContext* context, Stream* stream, std::string job,
                         std::shared_ptr<runtime::Feed> feed, runtime::Feed::Stream ticket)
    : context_(context),
      stream_(stream),
      job_(std::move(job)),
      feed_(std::move(feed)),
      ticket_(ticket),
      parts_(feed_.get()),
      teller_([this] { Tell(); }) {}

FeedSession::~FeedSession() { StopTelling(); }

bool FeedSession::Write(const runtime::Feed::Position& position, const std::string& taken_by) {
  v1::FeedResponse told = ToWire(job_, *feed_, position);
  told.set_taken_by(taken_by);
  std::string bytes = told.SerializeAsString();
  if (bytes == written_) return true;  // what has changed is not told
  v1::FeedResponse response = told;
  if (written_.empty()) {
    response.set_identity(feed_->identity());
    for (const auto& [name, type] : SchemaToWire(*feed_)) (*response.mutable_schema())[name] = type;
  }
  if (!stream_->Write(response)) return false;
  written_ = std::move(bytes);
  return true;
}

void FeedSession::Tell() {
  const auto is_over = [this] {
    MutexLock lock(&mu_);
    return over_;
  };
  runtime::Feed::Position position = feed_->Now();
  for (;;) {
    const std::string taken_by = position.ended ? "" : feed_->TakenBy(ticket_);
    if (!Write(position, taken_by) || is_over()) break;
    if (position.ended || !taken_by.empty()) {
      // The client ends the call; the call's thread may be reading, which only that ends.
      const absl::Time until = absl::Now() + kPatience;
      MutexLock lock(&mu_);
      while (!over_ && absl::Now() < until) changed_.WaitWithTimeout(&mu_, until - absl::Now());
      if (!over_) context_->TryCancel();
      break;
    }
    const uint64_t seen = position.version;
    do {
      position = feed_->WaitForChange(seen, absl::Now() + kCancelCheck);
    } while (position.version == seen && !is_over());
  }
  MutexLock lock(&mu_);
  quiet_ = true;
  changed_.SignalAll();
}

void FeedSession::StopTelling() {
  if (!teller_.joinable()) return;
  {
    MutexLock lock(&mu_);
    over_ = true;
    changed_.SignalAll();
  }
  feed_->Close(ticket_);  // wakes the thread
  const absl::Time until = absl::Now() + kPatience;
  {
    // A client that does not read can keep the thread in a write.
    MutexLock lock(&mu_);
    while (!quiet_ && absl::Now() < until) changed_.WaitWithTimeout(&mu_, until - absl::Now());
    if (!quiet_) context_->TryCancel();
  }
  teller_.join();
}

absl::Status FeedSession::Receive(const v1::FeedRequest::Batch& part) {
  const bool skips = !parts_.begun() && !part.compare() && part.number() != feed_->Now().next;
  if (skips) return feed_->Push(ticket_, part.number(), {});  // sent again, or a gap
  EBB_ASSIGN_OR_RETURN(auto batch, parts_.Add(part));
  if (!batch) return absl::OkStatus();
  if (part.compare()) return feed_->Compare(ticket_, part.number(), *batch);
  while (!feed_->AwaitRoom(ticket_, absl::Now() + kCancelCheck)) {
    if (context_->IsCancelled()) return absl::CancelledError("the client has gone");
  }
  return feed_->Push(ticket_, part.number(), *std::move(batch));
}

absl::Status FeedSession::Receive() {
  v1::FeedRequest message;
  while (stream_->Read(&message)) {
    EBB_RETURN_IF_ERROR(CheckKnown(message));
    switch (message.part_case()) {
      case v1::FeedRequest::kBatch:
        EBB_RETURN_IF_ERROR(Receive(message.batch()));
        break;
      case v1::FeedRequest::kEnd:
        if (parts_.begun()) {
          return absl::InvalidArgumentError("the feed ends in the middle of a batch");
        }
        EBB_RETURN_IF_ERROR(feed_->End(ticket_, message.end().batches()));
        break;
      default:
        return absl::InvalidArgumentError("after its header a feed is all batches, then its end");
    }
  }
  return absl::OkStatus();
}

absl::Status FeedSession::Run() {
  absl::Status status = Receive();
  const std::string taken_by = feed_->TakenBy(ticket_);  // while it is not closed
  StopTelling();
  const runtime::Feed::Position last = feed_->Now();
  if (!last.ended) {
    if (status.ok() && !taken_by.empty()) {
      return absl::AbortedError(absl::StrCat("another client has taken the feed: ", taken_by));
    }
    if (status.ok()) Write(last);  // all that it has sent
    if (status.ok() && context_->IsCancelled())
      status = absl::CancelledError("the client has gone");
    return status;
  }
  Write(last);
  // To have sent too much is no fault.
  if (*last.ended == runtime::JobState::kSucceeded) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(job_, " has ended: ", Name(*last.ended),
                                                    last.why.empty() ? "" : ": ", last.why));
}

}  // namespace ebb::daemon
