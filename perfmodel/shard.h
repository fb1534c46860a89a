// Which rank holds which embedding table, or which part of it: table-wise (one rank has it whole),
// row-wise (every rank has a range of rows) or column-wise (ranks have ranges of columns). Greedy
// placement and local search with the performance model as the judge. Pure and deterministic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "perfmodel/look_up.h"
#include "perfmodel/predictor.h"

namespace ebb::perfmodel {

struct EmbeddingTable {
  std::string name;
  int64_t rows = 0, width = 0;
  double pooling = 1;     // rows looked up for one sample, on average
  Popularity popularity;  // of its rows; empty: all alike
};

enum class Sharding { kTableWise, kRowWise, kColumnWise };
std::string Name(Sharding sharding);  // "table-wise", ...

struct Placement {
  Sharding sharding = Sharding::kTableWise;
  std::vector<int> ranks;  // kTableWise: one; kColumnWise: one a range of columns, all as wide;
                           // kRowWise: empty, all of them
  bool operator==(const Placement&) const = default;
};

struct ShardTask {
  std::vector<EmbeddingTable> tables;
  int ranks = 1;
  int64_t batch = 0;          // samples of a step, over all ranks
  double state_per_byte = 1;  // bytes of optimizer state for each of a table
  double memory_bytes = 0;    // of a rank, for tables and their state; 0: not bounded
  std::vector<Sharding> allowed = {Sharding::kTableWise, Sharding::kRowWise, Sharding::kColumnWise};
};

// Of one step, microseconds. Ranks wait for each other at every exchange, so that a step is the
// slowest rank's look-ups, the exchange of what they gave, its gradient's exchange and the slowest
// rank's backward look-ups.
struct ShardCost {
  double forward = 0, backward = 0, exchange = 0;
  std::vector<double> rank_micros;  // look-ups of each rank, both passes
  std::vector<double> rank_bytes;   // tables and state
  bool fits = true;
  bool in_hull = true;
  double step() const { return forward + backward + exchange; }
  double imbalance() const;  // of rank_micros: the most over the mean
};

struct ShardPlan {
  std::vector<Placement> placements;  // a table each
  ShardCost cost;
};

// InvalidArgument names the table and the number at fault. 2 to 4096 ranks are sharded; for one all
// tables are there.
absl::Status Check(const ShardTask& task);

// What a plan costs. InvalidArgument: placements that do not belong to the task.
absl::StatusOr<ShardCost> CostOf(const ShardTask& task, absl::Span<const Placement> placements,
                                 const LookUpModel& look_ups,
                                 const CollectivePredictor& collectives);

// Tables from the most expensive on, each where the step grows least, then moves and exchanges of
// tables until none helps, from several orders. ResourceExhausted: no plan was found that fits; it
// says by how much the best is over.
absl::StatusOr<ShardPlan> PlanShards(const ShardTask& task, const LookUpModel& look_ups,
                                     const CollectivePredictor& collectives);

// The best of all table-wise plans, by trying them all: for tests and small tasks. InvalidArgument
// above 2^20 of them.
absl::StatusOr<ShardPlan> BestTableWise(const ShardTask& task, const LookUpModel& look_ups,
                                        const CollectivePredictor& collectives);

}  // namespace ebb::perfmodel
