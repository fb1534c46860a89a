#include "perfmodel/shard_state.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"

namespace ebb::perfmodel {
namespace {

constexpr int64_t kLeastWidth = 16;  // of a range of columns: narrower rows waste memory's sectors
constexpr double kElement = 4;

double MicrosOrZero(const absl::StatusOr<Estimate>& estimate) {
  return estimate.ok() ? estimate->median : 0;
}

}  // namespace

absl::StatusOr<ShardCosts::Part> ShardCosts::PartOf(const LookUpModel& look_ups,
                                                    const LookUp& look_up) {
  Part part;
  EBB_ASSIGN_OR_RETURN(const Estimate forward, look_ups.Predict(look_up, LookUpPass::kForward));
  EBB_ASSIGN_OR_RETURN(const Estimate backward, look_ups.Predict(look_up, LookUpPass::kBackward));
  part.forward = forward.median;
  part.backward = backward.median;
  part.bytes = look_up.rows * look_up.row_bytes() * (1 + task_->state_per_byte);
  part.sent = look_up.bags / task_->ranks * look_up.row_bytes();
  in_hull_ &= forward.in_hull && backward.in_hull;
  return part;
}

absl::StatusOr<ShardCosts> ShardCosts::Make(const ShardTask& task, const LookUpModel& look_ups,
                                            const CollectivePredictor& collectives) {
  EBB_RETURN_IF_ERROR(perfmodel::Check(task));
  ShardCosts costs;
  costs.task_ = &task;
  costs.collectives_ = &collectives;
  // What is not known of the fabric is an error here, so that the search need not look.
  if (task.ranks > 1) {
    for (const CollectiveKind kind :
         {CollectiveKind::kAllToAll, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather}) {
      EBB_ASSIGN_OR_RETURN(
          const Estimate known,
          collectives.Predict({.kind = kind, .ranks = task.ranks, .bytes = 1 << 20}));
      costs.in_hull_ &= known.in_hull;
    }
  }
  const auto batch = static_cast<double>(task.batch);
  double mean_bytes = 0;  // that a rank looks up
  for (const EmbeddingTable& table : task.tables) {
    mean_bytes += batch * table.pooling * static_cast<double>(table.width) * kElement / task.ranks;
  }
  for (size_t i = 0; i < task.tables.size(); ++i) {
    const EmbeddingTable& table = task.tables[i];
    LookUp look_up{.rows = static_cast<double>(table.rows),
                   .width = static_cast<double>(table.width),
                   .look_ups = batch * table.pooling,
                   .bags = batch,
                   .element_bytes = kElement,
                   .popularity = table.popularity.classes.empty() ? UniformPopularity(table.rows)
                                                                  : table.popularity};
    // A rank's caches serve all its tables: as many bytes of each as on the mean rank.
    look_up.cache_share =
        std::min(1.0, look_up.look_ups * look_up.row_bytes() / std::max(mean_bytes, 1.0));
    costs.columns_.emplace_back();
    std::vector<int> parts = costs.ColumnParts(i);
    parts.push_back(1);
    for (const int count : parts) {
      LookUp range = look_up;
      range.width /= count;
      EBB_ASSIGN_OR_RETURN(costs.columns_[i][count], costs.PartOf(look_ups, range));
    }
    LookUp rows = look_up;
    rows.rows = std::max(1.0, rows.rows / task.ranks);
    rows.look_ups /= task.ranks;
    for (Popularity::Class& one : rows.popularity.classes) one.rows /= task.ranks;
    EBB_ASSIGN_OR_RETURN(const Part part, costs.PartOf(look_ups, rows));
    costs.rows_.push_back(part);
  }
  return costs;
}

std::vector<int> ShardCosts::ColumnParts(size_t table) const {
  std::vector<int> parts;
  const int64_t width = task_->tables[table].width;
  for (int count = 2; count <= task_->ranks && count <= 16; count *= 2) {
    if (width % count == 0 && width / count >= kLeastWidth) parts.push_back(count);
  }
  return parts;
}

double ShardCosts::PooledBytes(size_t table) const {
  return static_cast<double>(task_->batch) * static_cast<double>(task_->tables[table].width) *
         kElement;
}

absl::Status ShardCosts::Check(size_t table, const Placement& placement) const {
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("table '", Escaped(task_->tables[table].name), "': ", what));
  };
  for (const int rank : placement.ranks) {
    if (rank < 0 || rank >= task_->ranks) {
      return error(absl::StrCat("rank ", rank, " is not within 0 to ", task_->ranks - 1));
    }
  }
  const size_t count = placement.ranks.size();
  switch (placement.sharding) {
    case Sharding::kTableWise:
      return count == 1 ? absl::OkStatus() : error("table-wise it is on one rank");
    case Sharding::kRowWise:
      return count == 0 ? absl::OkStatus() : error("row-wise it is on all ranks, none is named");
    case Sharding::kColumnWise:
      return columns_[table].contains(static_cast<int>(count)) && count > 1
                 ? absl::OkStatus()
                 : error(absl::StrCat("its columns cannot be cut into ", count, " ranges"));
  }
  return absl::OkStatus();
}

ShardState::ShardState(const ShardCosts* costs)
    : costs_(costs),
      forward_(static_cast<size_t>(costs->task().ranks), 0),
      backward_(forward_),
      bytes_(forward_),
      sent_(forward_) {}

void ShardState::Apply(size_t table, const Placement& placement, double sign) {
  const auto add = [&](size_t rank, const ShardCosts::Part& part) {
    forward_[rank] += sign * part.forward;
    backward_[rank] += sign * part.backward;
    bytes_[rank] += sign * part.bytes;
  };
  if (placement.sharding == Sharding::kRowWise) {
    for (size_t rank = 0; rank < forward_.size(); ++rank) add(rank, costs_->Rows(table));
    reduced_ += sign * costs_->PooledBytes(table);
    return;
  }
  const ShardCosts::Part& part = costs_->Columns(table, static_cast<int>(placement.ranks.size()));
  for (const int rank : placement.ranks) {
    add(static_cast<size_t>(rank), part);
    sent_[static_cast<size_t>(rank)] += sign * part.sent;
  }
}

std::vector<Placement> ShardState::Options(size_t table) const {
  const auto& allowed = costs_->task().allowed;
  const auto may = [&](Sharding sharding) {
    return std::find(allowed.begin(), allowed.end(), sharding) != allowed.end();
  };
  std::vector<Placement> options;
  const int ranks = costs_->task().ranks;
  if (may(Sharding::kTableWise) || ranks == 1) {
    for (int rank = 0; rank < ranks; ++rank) options.push_back({Sharding::kTableWise, {rank}});
  }
  if (ranks == 1) return options;
  if (may(Sharding::kColumnWise)) {
    std::vector<int> order(forward_.size());
    std::iota(order.begin(), order.end(), 0);
    const auto load = [&](int rank) {
      const auto at = static_cast<size_t>(rank);
      return forward_[at] + backward_[at];
    };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return load(a) < load(b); });
    for (const int parts : costs_->ColumnParts(table)) {
      std::vector<int> least(order.begin(), order.begin() + parts);
      std::sort(least.begin(), least.end());
      options.push_back({Sharding::kColumnWise, std::move(least)});
    }
  }
  if (may(Sharding::kRowWise) || options.empty()) options.push_back({Sharding::kRowWise, {}});
  return options;
}

double ShardState::Exchange() const {
  const int ranks = costs_->task().ranks;
  if (ranks == 1) return 0;
  // Unequal shards take as long as equal ones of the rank that sends or receives most.
  const double all = std::accumulate(sent_.begin(), sent_.end(), 0.0);
  double most = 0;
  for (const double sent : sent_) most = std::max({most, sent * (ranks - 1), all - sent});
  const auto micros = [&](CollectiveKind kind, double bytes) {
    if (bytes < 1) return 0.0;
    return MicrosOrZero(
        costs_->collectives().Predict({.kind = kind, .ranks = ranks, .bytes = bytes}));
  };
  return 2 * micros(CollectiveKind::kAllToAll, most * ranks / (ranks - 1)) +
         micros(CollectiveKind::kReduceScatter, reduced_) +
         micros(CollectiveKind::kAllGather, reduced_);
}

ShardCost ShardState::Cost() const {
  ShardCost cost;
  cost.forward = *std::max_element(forward_.begin(), forward_.end());
  cost.backward = *std::max_element(backward_.begin(), backward_.end());
  cost.exchange = Exchange();
  for (size_t rank = 0; rank < forward_.size(); ++rank) {
    cost.rank_micros.push_back(forward_[rank] + backward_[rank]);
  }
  cost.rank_bytes = bytes_;
  const double memory = costs_->task().memory_bytes;
  cost.fits = memory == 0 || *std::max_element(bytes_.begin(), bytes_.end()) <= memory;
  cost.in_hull = costs_->in_hull();
  return cost;
}

double ShardState::Objective() const {
  const double step = *std::max_element(forward_.begin(), forward_.end()) +
                      *std::max_element(backward_.begin(), backward_.end()) + Exchange();
  double squares = 0;
  for (size_t rank = 0; rank < forward_.size(); ++rank) {
    squares += std::pow(forward_[rank] + backward_[rank], 2);
  }
  const double even = std::sqrt(squares / static_cast<double>(forward_.size()));
  const double memory = costs_->task().memory_bytes;
  double over = 0;
  for (const double bytes : bytes_) {
    if (memory > 0 && bytes > memory) over += bytes / memory - 1;
  }
  return step + 1e-3 * even + (over > 0 ? 1e12 * (1 + over) : 0);
}

double ShardState::MicrosOf(size_t table) const {
  const ShardCosts::Part& whole = costs_->Columns(table, 1);
  return whole.forward + whole.backward;
}

double ShardState::BytesOf(size_t table) const { return costs_->Columns(table, 1).bytes; }

}  // namespace ebb::perfmodel
