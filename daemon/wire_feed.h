// What a client pushes: the description of a feed in a job spec, and the messages of its batches.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ebb/v1/job.pb.h"
#include "ebb/v1/service.pb.h"
#include "graph/types.h"
#include "runtime/feed.h"
#include "runtime/job.h"

namespace ebb::daemon {

// `field` names the source in messages, which has a feed. InvalidArgument: it says something that
// is for files.
absl::Status CheckFedOnly(absl::string_view field, const v1::DataSource& wire);
absl::StatusOr<runtime::FeedSpec> FeedFromWire(absl::string_view field, const v1::DataSource& wire);

// Puts the messages of one batch together. Takes the memory of a whole batch with its first rows.
class BatchInParts {
 public:
  using Rows = std::map<std::string, graph::HostTensor>;

  explicit BatchInParts(const runtime::Feed* feed) : feed_(feed) {}

  // The whole batch with its last message. InvalidArgument: not rows of the job's batches.
  absl::StatusOr<std::optional<Rows>> Add(const v1::FeedRequest::Batch& part);
  bool begun() const { return !rows_.empty(); }

 private:
  absl::StatusOr<int64_t> CheckPart(const v1::FeedRequest::Batch& part) const;

  const runtime::Feed* const feed_;
  Rows rows_;  // empty: no batch has begun
  int64_t number_ = 0;
  int64_t filled_ = 0;  // rows
};

// Field -> type of one row.
std::map<std::string, std::string> SchemaToWire(const runtime::Feed& feed);
v1::FeedResponse ToWire(const std::string& job, const runtime::Feed& feed,
                        const runtime::Feed::Position& position);

}  // namespace ebb::daemon
