#include "perfmodel/shard.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "base/units.h"
#include "perfmodel/shard_state.h"

namespace ebb::perfmodel {
namespace {

constexpr int kOrders = 8;           // in which tables are placed, one search each
constexpr int kMaxPasses = 50;       // of a local search; every one lowers the cost
constexpr size_t kMaxSwapped = 200;  // tables up to which pairs are exchanged
constexpr int64_t kMaxPlans = 1 << 20;

// Where an item is placed best, the item being on no rank.
double PlaceBest(const ShardState& state, size_t table, Placement* best) {
  double least = HUGE_VAL;
  for (const Placement& placement : state.Options(table)) {
    ShardState tried = state;
    tried.Add(table, placement);
    if (tried.Objective() < least) {
      least = tried.Objective();
      *best = placement;
    }
  }
  return least;
}

// Every table taken out and placed again; true: the cost fell.
bool MoveTables(ShardState* state, std::vector<Placement>* placements) {
  bool better = false;
  for (size_t table = 0; table < placements->size(); ++table) {
    const double before = state->Objective();
    ShardState without = *state;
    without.Remove(table, (*placements)[table]);
    Placement best;
    if (PlaceBest(without, table, &best) >= before * (1 - 1e-9)) continue;
    without.Add(table, best);
    *state = std::move(without);
    (*placements)[table] = best;
    better = true;
  }
  return better;
}

bool SwapTables(ShardState* state, std::vector<Placement>* placements) {
  bool better = false;
  for (size_t a = 0; a < placements->size(); ++a) {
    for (size_t b = a + 1; b < placements->size(); ++b) {
      Placement& of_a = (*placements)[a];
      Placement& of_b = (*placements)[b];
      if (of_a.sharding != Sharding::kTableWise || of_b.sharding != Sharding::kTableWise ||
          of_a == of_b) {
        continue;
      }
      ShardState tried = *state;
      tried.Remove(a, of_a);
      tried.Remove(b, of_b);
      tried.Add(a, of_b);
      tried.Add(b, of_a);
      if (tried.Objective() >= state->Objective() * (1 - 1e-9)) continue;
      *state = std::move(tried);
      std::swap(of_a, of_b);
      better = true;
    }
  }
  return better;
}

// Orders of tables: by time, by memory, and permutations that are the same on every call.
std::vector<size_t> Order(const ShardState& state, size_t tables, int number) {
  std::vector<size_t> order(tables);
  std::iota(order.begin(), order.end(), size_t{0});
  if (number < 2) {
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return number == 0 ? state.MicrosOf(a) > state.MicrosOf(b)
                         : state.BytesOf(a) > state.BytesOf(b);
    });
    return order;
  }
  uint64_t random = static_cast<uint64_t>(number);
  for (size_t i = tables; i > 1; --i) {
    random = random * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
    std::swap(order[i - 1], order[(random >> 33) % i]);
  }
  return order;
}

absl::Status DoesNotFit(const ShardTask& task, const ShardCost& cost) {
  const double most = *std::max_element(cost.rank_bytes.begin(), cost.rank_bytes.end());
  return absl::ResourceExhaustedError(
      absl::StrCat("the tables and their optimizer state do not fit: the fullest rank would need ",
                   FormatBytes(Bytes(static_cast<int64_t>(most))), " of ",
                   FormatBytes(Bytes(static_cast<int64_t>(task.memory_bytes))), "; more ranks, ",
                   "row-wise sharding or less optimizer state would help"));
}

}  // namespace

std::string Name(Sharding sharding) {
  switch (sharding) {
    case Sharding::kTableWise:
      return "table-wise";
    case Sharding::kRowWise:
      return "row-wise";
    case Sharding::kColumnWise:
      return "column-wise";
  }
  return "?";
}

double ShardCost::imbalance() const {
  if (rank_micros.empty()) return 1;
  const double sum = std::accumulate(rank_micros.begin(), rank_micros.end(), 0.0);
  const double most = *std::max_element(rank_micros.begin(), rank_micros.end());
  return sum > 0 ? most * static_cast<double>(rank_micros.size()) / sum : 1;
}

absl::Status Check(const ShardTask& task) {
  if (task.ranks < 1 || task.ranks > 4096) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranks: ", task.ranks, " is not within 1 to 4096"));
  }
  if (task.batch < 1 || task.batch > int64_t{1} << 40) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch: ", task.batch, " is no number of samples above 0"));
  }
  if (task.tables.empty() || task.tables.size() > 10'000) {
    return absl::InvalidArgumentError(
        absl::StrCat("tables: there are ", task.tables.size(), ", give 1 to 10000"));
  }
  if (task.allowed.empty()) {
    return absl::InvalidArgumentError("no way of sharding is allowed; give at least one");
  }
  if (!(task.state_per_byte >= 0) || !(task.memory_bytes >= 0) ||
      !std::isfinite(task.state_per_byte + task.memory_bytes)) {
    return absl::InvalidArgumentError("memory and optimizer state must be finite and not negative");
  }
  for (const EmbeddingTable& table : task.tables) {
    if (table.rows < 1 || table.rows > int64_t{1} << 40 || table.width < 1 ||
        table.width > 1 << 20 || !(table.pooling > 0) || table.pooling > 1e6) {
      return absl::InvalidArgumentError(absl::StrCat(
          "table '", Escaped(table.name), "': ", table.rows, " rows of ", table.width, ", pooling ",
          table.pooling, ": rows and width must be at least 1, pooling above 0 and at most 1e6"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ShardCost> CostOf(const ShardTask& task, absl::Span<const Placement> placements,
                                 const LookUpModel& look_ups,
                                 const CollectivePredictor& collectives) {
  EBB_ASSIGN_OR_RETURN(const ShardCosts costs, ShardCosts::Make(task, look_ups, collectives));
  if (placements.size() != task.tables.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(placements.size(), " placements of ", task.tables.size(), " tables"));
  }
  ShardState state(&costs);
  for (size_t i = 0; i < placements.size(); ++i) {
    EBB_RETURN_IF_ERROR(costs.Check(i, placements[i]));
    state.Add(i, placements[i]);
  }
  return state.Cost();
}

absl::StatusOr<ShardPlan> PlanShards(const ShardTask& task, const LookUpModel& look_ups,
                                     const CollectivePredictor& collectives) {
  EBB_ASSIGN_OR_RETURN(const ShardCosts costs, ShardCosts::Make(task, look_ups, collectives));
  const size_t tables = task.tables.size();
  const double work = static_cast<double>(tables) * task.ranks * task.ranks;
  const int orders = work > 1e6 ? 2 : kOrders;  // large tasks: a good plan in a few seconds
  ShardPlan best;
  double least = HUGE_VAL;
  for (int number = 0; number < orders; ++number) {
    ShardState state(&costs);
    std::vector<Placement> placements(tables);
    for (const size_t table : Order(state, tables, number)) {
      PlaceBest(state, table, &placements[table]);
      state.Add(table, placements[table]);
    }
    for (int pass = 0; pass < kMaxPasses; ++pass) {
      bool better = MoveTables(&state, &placements);
      if (tables <= kMaxSwapped && work <= 1e6) better |= SwapTables(&state, &placements);
      if (!better) break;
    }
    if (state.Objective() >= least) continue;
    least = state.Objective();
    best = {std::move(placements), state.Cost()};
  }
  if (!best.cost.fits) return DoesNotFit(task, best.cost);
  return best;
}

absl::StatusOr<ShardPlan> BestTableWise(const ShardTask& task, const LookUpModel& look_ups,
                                        const CollectivePredictor& collectives) {
  EBB_ASSIGN_OR_RETURN(const ShardCosts costs, ShardCosts::Make(task, look_ups, collectives));
  const size_t tables = task.tables.size();
  if (std::pow(task.ranks, tables) > static_cast<double>(kMaxPlans)) {
    return absl::InvalidArgumentError(absl::StrCat(tables, " tables on ", task.ranks,
                                                   " ranks have more than ", kMaxPlans, " plans"));
  }
  ShardPlan best;
  double least = HUGE_VAL;
  std::vector<int> ranks(tables, 0);
  while (true) {
    ShardState state(&costs);
    std::vector<Placement> placements;
    for (size_t i = 0; i < tables; ++i) {
      placements.push_back({Sharding::kTableWise, {ranks[i]}});
      state.Add(i, placements[i]);
    }
    if (state.Objective() < least) {
      least = state.Objective();
      best = {std::move(placements), state.Cost()};
    }
    size_t digit = 0;
    while (digit < tables && ++ranks[digit] == task.ranks) ranks[digit++] = 0;
    if (digit == tables) break;
  }
  if (!best.cost.fits) return DoesNotFit(task, best.cost);
  return best;
}

}  // namespace ebb::perfmodel
