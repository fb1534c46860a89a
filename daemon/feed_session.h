// One client that feeds a job: reads its batches on the call's thread, and tells it the feed's
// position on another.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "daemon/wire_feed.h"
#include "ebb/v1/service.grpc.pb.h"
#include "runtime/feed.h"

namespace ebb::daemon {

class FeedSession {
 public:
  using Stream = grpc::ServerReaderWriter<v1::FeedResponse, v1::FeedRequest>;

  // `job`: its id, as clients know it. `ticket`: of the feed, which is closed in the end.
  FeedSession(grpc::ServerContext* context, Stream* stream, std::string job,
              std::shared_ptr<runtime::Feed> feed, runtime::Feed::Stream ticket);
  ~FeedSession();
  FeedSession(const FeedSession&) = delete;
  FeedSession& operator=(const FeedSession&) = delete;

  // Until the client has no more to say, says something wrong or has gone, or the job has ended.
  absl::Status Run();

 private:
  absl::Status Receive();
  absl::Status Receive(const v1::FeedRequest::Batch& part);
  void Tell();  // the thread that writes
  bool Write(const runtime::Feed::Position& position, const std::string& taken_by = "");
  void StopTelling();

  grpc::ServerContext* const context_;
  Stream* const stream_;
  const std::string job_;
  const std::shared_ptr<runtime::Feed> feed_;
  const runtime::Feed::Stream ticket_;
  BatchInParts parts_;
  std::string written_;  // the newest response; the writing thread's, then the call's

  Mutex mu_;
  CondVar changed_;
  bool over_ ABSL_GUARDED_BY(mu_) = false;   // Run() is done: nothing more to tell
  bool quiet_ ABSL_GUARDED_BY(mu_) = false;  // the thread has ended
  std::thread teller_;
};

}  // namespace ebb::daemon
