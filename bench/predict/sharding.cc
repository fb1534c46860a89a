// How near the search for embedding shards comes to the best plan of all, which the performance
// model itself judges: simulated.
#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "bench/predict/groups.h"
#include "perfmodel/fabric.h"
#include "perfmodel/shard.h"

namespace ebb::bench {
namespace {

using perfmodel::ShardPlan;
using perfmodel::ShardTask;

constexpr unsigned kTasks = 100;
constexpr double kNear = 1.1;

// 2 to 8 tables on 4 ranks; sizes, widths, poolings and skews of all kinds.
ShardTask DrawTask(unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> draw(0, 1);
  ShardTask task{.ranks = 4, .batch = 4096, .allowed = {perfmodel::Sharding::kTableWise}};
  const size_t tables = 2 + random() % 7;
  for (size_t i = 0; i < tables; ++i) {
    const auto rows = static_cast<int64_t>(std::exp2(10 + 13 * draw(random)));
    task.tables.push_back({.name = absl::StrCat("t", i),
                           .rows = rows,
                           .width = 16 << (random() % 4),
                           .pooling = 1 + std::floor(30 * draw(random) * draw(random)),
                           .popularity = perfmodel::ZipfPopularity(rows, 1.2 * draw(random))});
  }
  return task;
}

// Tables in turn, as they come: what one gets without a model.
double InTurn(const ShardTask& task, const perfmodel::LookUpModel& look_ups,
              const perfmodel::Fabric& fabric) {
  std::vector<perfmodel::Placement> placements;
  for (size_t i = 0; i < task.tables.size(); ++i) {
    placements.push_back({perfmodel::Sharding::kTableWise, {static_cast<int>(i) % task.ranks}});
  }
  const auto cost = CostOf(task, placements, look_ups, fabric);
  return cost.ok() ? cost->step() : HUGE_VAL;
}

}  // namespace

absl::StatusOr<std::vector<PredictRow>> ShardingRows(const std::string&) {
  EBB_ASSIGN_OR_RETURN(const perfmodel::Hardware hardware, perfmodel::FindHardware("a100-80gb"));
  EBB_ASSIGN_OR_RETURN(const perfmodel::Fabric fabric, perfmodel::FindFabric("a100-nvswitch"));
  const auto look_ups = perfmodel::LookUpModel::APriori(hardware);
  std::vector<Predicted> against_best;
  int near = 0, in_turn_near = 0;
  for (unsigned seed = 1; seed <= kTasks; ++seed) {
    const ShardTask task = DrawTask(seed);
    EBB_ASSIGN_OR_RETURN(const ShardPlan chosen, PlanShards(task, look_ups, fabric));
    EBB_ASSIGN_OR_RETURN(const ShardPlan best, BestTableWise(task, look_ups, fabric));
    against_best.push_back({.measured = best.cost.step(), .median = chosen.cost.step()});
    near += chosen.cost.step() <= kNear * best.cost.step() ? 1 : 0;
    in_turn_near += InTurn(task, look_ups, fabric) <= kNear * best.cost.step() ? 1 : 0;
  }
  PredictRow row = RowOf("sharding, simulated: % within 10 % of the best of all plans",
                         against_best, 85, 100.0 * in_turn_near / kTasks);
  row.value = 100.0 * near / kTasks;
  row.at_least = true;
  return std::vector<PredictRow>{row};
}

}  // namespace ebb::bench
