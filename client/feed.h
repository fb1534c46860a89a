// Feeds a job: sends its batches in order, as fast as the daemon has room for them, and goes on
// from where it was after a connection that broke. One thread a call.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "ebb/v1/service.pb.h"

namespace ebb::client {

// One field of a batch: rows are axis 0.
struct FedField {
  std::string name;
  std::string dtype;  // f32, f64, i32, i64, u8, bool
  std::vector<int64_t> shape;
  std::string bytes;  // row-major, little-endian
};
using FedBatch = std::vector<FedField>;

// What the daemon said when the feed began: which batch it wants, and how batches look.
using FeedBegun = std::function<absl::Status(const v1::FeedResponse&)>;
// Batch `number`, or nothing where the data end before it. Asked for in order, and again for those
// that the daemon wants again after a broken connection, or the one before them.
using BatchMaker = std::function<absl::StatusOr<std::optional<FedBatch>>(int64_t number)>;

enum class AtEnd {
  kEnd,   // the job ends when it has read them all
  kLeave  // it waits for more
};

enum class AtBegin {
  kCompare,  // the last batch that the job has must be what `batches` returns for it
  kTrust
};

enum class OtherClient {
  kStays,    // while it is connected this one is refused
  kIsEnded,  // this one takes the feed from it
};

struct FeedOptions {
  // Who feeds, in messages, such as "ebb feed day1.npz"; process and host are added.
  std::string name = "a client";
  OtherClient other = OtherClient::kStays;
  AtBegin at_begin = AtBegin::kCompare;
  AtEnd at_end = AtEnd::kEnd;
  // A daemon that cannot be reached is tried again for so long.
  absl::Duration patience = absl::Seconds(30);
  // It cannot be reached, and is going to be tried again. Called once until it is reached.
  std::function<void(const absl::Status&)> waits = nullptr;
  FeedBegun begun = nullptr;                                    // of each connection
  std::function<void(const v1::FeedResponse&)> told = nullptr;  // a newer position
};

// Until the data end, the job has ended well, or an error: what the daemon refuses, what `batches`
// returns, Unavailable. FailedPrecondition: another client feeds the job, `batches` is not what it
// was fed with so far, or after a broken connection another job has its id. The newest position.
absl::StatusOr<v1::FeedResponse> FeedJob(Client* client, const std::string& job,
                                         const BatchMaker& batches, const FeedOptions& options);

}  // namespace ebb::client
