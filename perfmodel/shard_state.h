// The cost of a plan of embedding shards, kept up as tables are placed and taken out. Private to
// the search (shard.cc); one thread.
#pragma once

#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "perfmodel/shard.h"

namespace ebb::perfmodel {

// What parts of tables cost, however they are placed. Immutable; lasts no longer than the task and
// the predictor.
class ShardCosts {
 public:
  // A part of a table on one rank.
  struct Part {
    double forward = 0, backward = 0;  // microseconds of its look-ups
    double bytes = 0;                  // of memory
    double sent = 0;                   // bytes to each other rank, of an all-to-all
  };
  static absl::StatusOr<ShardCosts> Make(const ShardTask& task, const LookUpModel& look_ups,
                                         const CollectivePredictor& collectives);

  const ShardTask& task() const { return *task_; }
  const CollectivePredictor& collectives() const { return *collectives_; }
  bool in_hull() const { return in_hull_; }
  // `parts` ranges of columns; 1: the whole table.
  const Part& Columns(size_t table, int parts) const { return columns_[table].at(parts); }
  const Part& Rows(size_t table) const { return rows_[table]; }
  std::vector<int> ColumnParts(size_t table) const;  // in how many ranges it can be cut, 2 and more
  double PooledBytes(size_t table) const;            // of the vectors of the whole batch
  absl::Status Check(size_t table, const Placement& placement) const;

 private:
  ShardCosts() = default;
  absl::StatusOr<Part> PartOf(const LookUpModel& look_ups, const LookUp& look_up);

  const ShardTask* task_ = nullptr;
  const CollectivePredictor* collectives_ = nullptr;
  bool in_hull_ = true;
  std::vector<std::map<int, Part>> columns_;
  std::vector<Part> rows_;
};

class ShardState {
 public:
  explicit ShardState(const ShardCosts* costs);

  void Add(size_t table, const Placement& placement) { Apply(table, placement, 1); }
  void Remove(size_t table, const Placement& placement) { Apply(table, placement, -1); }
  // Ways to place a table that are worth a look: every rank, the least loaded ranks for ranges of
  // columns, all ranks for ranges of rows.
  std::vector<Placement> Options(size_t table) const;

  // The step's time; above all of them where memory is exceeded, by how much. Of equal steps the
  // one with more even ranks is a little better.
  double Objective() const;
  ShardCost Cost() const;
  double MicrosOf(size_t table) const;
  double BytesOf(size_t table) const;

 private:
  void Apply(size_t table, const Placement& placement, double sign);
  double Exchange() const;

  const ShardCosts* costs_;
  std::vector<double> forward_, backward_, bytes_, sent_;  // by rank
  double reduced_ = 0;                                     // bytes of row-wise tables' partial sums
};

}  // namespace ebb::perfmodel
