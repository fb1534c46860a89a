// Collectives: what is asked, whatever answers (a measured curve, a curve of other sizes, a
// topology). Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ebb::perfmodel {

enum class CollectiveKind : uint8_t {
  kAllReduce,      // every rank has `bytes` and ends with the sum
  kAllGather,      // every rank ends with `bytes`, a rank's share of it each from another
  kReduceScatter,  // every rank has `bytes` and ends with its share of the sum
  kAllToAll,       // every rank has `bytes` and sends each rank an equal share, or `sends`
  kBroadcast,      // one rank's `bytes` go to all
  kSendRecv,       // `bytes` from one rank to another
};
absl::string_view Name(CollectiveKind kind);  // "all_reduce", "all_gather", ...
absl::StatusOr<CollectiveKind> ParseCollective(absl::string_view name);

struct Collective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int64_t ranks = 1;
  double bytes = 0;  // as NCCL's tests count them: see above
  // kAllToAll with unequal shares: sends[i][j] bytes from rank i to rank j; empty: equal ones.
  std::vector<std::vector<double>> sends = {};
  // The group is every stride-th GPU, and its neighbours all form such groups that exchange at the
  // same time: data ranks of four tensor ranks each have stride 4.
  int64_t stride = 1;
};

// Bytes that a rank's link must carry each way, over `bytes`: busbw = bytes / time x this, as
// nccl-tests define it (2 (n-1)/n, (n-1)/n or 1). 0 for one rank.
double BusFactor(CollectiveKind kind, int64_t ranks);

}  // namespace ebb::perfmodel
