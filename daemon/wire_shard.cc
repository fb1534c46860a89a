// ShardEmbeddings on the wire.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/text.h"
#include "daemon/supported.h"
#include "daemon/wire_check.h"
#include "daemon/wire_predict.h"

namespace ebb::daemon {
namespace {

using perfmodel::EmbeddingTable;
using perfmodel::Sharding;
using perfmodel::ShardPlan;

constexpr Sharding kShardings[] = {Sharding::kTableWise, Sharding::kRowWise, Sharding::kColumnWise};
constexpr double kMostWork = 1e8;    // tables x ranks^2, which placing them takes
constexpr double kMostBytes = 1e15;  // of all tables and their state
constexpr double kGiB = 1 << 30;

absl::StatusOr<EmbeddingTable> TableFromWire(const v1::EmbeddingTable& wire, int index) {
  const std::string field = absl::StrCat("tables[", index, "]");
  if (wire.name().size() > 256) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".name has more than 256 bytes"));
  }
  EBB_RETURN_IF_ERROR(CheckCount(absl::StrCat(field, ".rows"), wire.rows(), 1));
  EBB_RETURN_IF_ERROR(CheckCount(absl::StrCat(field, ".width"), wire.width(), 1, 1 << 20));
  EBB_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, ".skew"), wire.skew(), 0, 10));
  EmbeddingTable table{.name = wire.name().empty() ? absl::StrCat("table ", index) : wire.name(),
                       .rows = wire.rows(),
                       .width = wire.width()};
  if (wire.has_pooling()) table.pooling = wire.pooling();
  EBB_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, ".pooling"), table.pooling, 1e-6, 1e6));
  table.popularity = wire.skew() > 0 ? perfmodel::ZipfPopularity(table.rows, wire.skew())
                                     : perfmodel::UniformPopularity(table.rows);
  return table;
}

absl::StatusOr<Sharding> ShardingFromWire(const std::string& name) {
  for (const Sharding sharding : kShardings) {
    if (name == perfmodel::Name(sharding)) return sharding;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("allowed: '", Escaped(name),
                   "' is no way of sharding; there are table-wise, row-wise and column-wise"));
}

// What the step waits for most.
std::string Bottleneck(const ShardPlan& plan) {
  const perfmodel::ShardCost& cost = plan.cost;
  const double whole = std::max(cost.step(), 1e-9);
  if (cost.exchange >= cost.forward + cost.backward) {
    return absl::StrFormat(
        "exchanges between ranks take %.0f %% of the step: fewer ranks, a faster fabric or "
        "narrower "
        "tables would help",
        100 * cost.exchange / whole);
  }
  const auto slowest = std::max_element(cost.rank_micros.begin(), cost.rank_micros.end());
  const std::string who = absl::StrFormat("look-ups of rank %d take %.0f %% of the step",
                                          slowest - cost.rank_micros.begin(),
                                          100 * (cost.forward + cost.backward) / whole);
  if (cost.imbalance() > 1.2) {
    return absl::StrFormat(
        "%s, %.2f times the ranks' mean: what it holds could not be shared more evenly; other ways "
        "of sharding or smaller tables would help",
        who, cost.imbalance());
  }
  return absl::StrCat(who,
                      " and all ranks have about as much: more ranks or memory of a higher "
                      "bandwidth would help");
}

}  // namespace

absl::StatusOr<ShardAsked> AskedFromWire(const v1::ShardEmbeddingsRequest& request) {
  EBB_RETURN_IF_ERROR(CheckKnown(request));
  ShardAsked asked;
  EBB_RETURN_IF_ERROR(CheckCount("tables", request.tables_size(), 1, 10'000));
  EBB_RETURN_IF_ERROR(CheckCount("ranks", request.ranks(), 1, 4096));
  EBB_RETURN_IF_ERROR(CheckCount("batch_size", request.batch_size(), 1));
  const double work = 1.0 * request.tables_size() * request.ranks() * request.ranks();
  if (work > kMostWork) {
    return absl::InvalidArgumentError(
        absl::StrCat("tables x ranks x ranks is ", work, "; at most ", kMostWork,
                     ": join small tables to groups, or plan for the ranks of one node"));
  }
  auto hardware = perfmodel::FindHardware(request.hardware());
  if (!hardware.ok()) return Annotate(hardware.status(), "hardware");
  asked.hardware = *std::move(hardware);
  if (request.has_fabric()) {
    EBB_ASSIGN_OR_RETURN(asked.fabric, FabricFromWire(request.fabric(), "fabric"));
  } else if (request.ranks() > 1) {
    return NoFabric("fabric");
  }
  perfmodel::ShardTask& task = asked.task;
  task.ranks = request.ranks();
  task.batch = request.batch_size();
  task.memory_bytes =
      request.has_memory_bytes() ? request.memory_bytes() : asked.hardware.memory_gib * kGiB;
  EBB_RETURN_IF_ERROR(CheckNumber("memory_bytes", task.memory_bytes, 0, 1e18));
  if (request.has_state_per_byte()) task.state_per_byte = request.state_per_byte();
  EBB_RETURN_IF_ERROR(CheckNumber("state_per_byte", task.state_per_byte, 0, 64));
  if (request.allowed_size() > 0) task.allowed.clear();
  for (const std::string& name : request.allowed()) {
    EBB_ASSIGN_OR_RETURN(const Sharding sharding, ShardingFromWire(name));
    task.allowed.push_back(sharding);
  }
  double bytes = 0;
  for (int i = 0; i < request.tables_size(); ++i) {
    EBB_ASSIGN_OR_RETURN(EmbeddingTable table, TableFromWire(request.tables(i), i));
    bytes += 4.0 * static_cast<double>(table.rows) * static_cast<double>(table.width) *
             (1 + task.state_per_byte);
    task.tables.push_back(std::move(table));
  }
  if (bytes > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tables have ", bytes, " bytes with their optimizer's state; at most ", kMostBytes));
  }
  EBB_RETURN_IF_ERROR(perfmodel::Check(task));
  return asked;
}

v1::ShardEmbeddingsResponse ToWire(const ShardAsked& asked, const ShardPlan& plan) {
  v1::ShardEmbeddingsResponse wire;
  for (size_t i = 0; i < plan.placements.size(); ++i) {
    v1::ShardEmbeddingsResponse::Placement* one = wire.add_placements();
    one->set_table(Escaped(asked.task.tables[i].name));
    one->set_sharding(perfmodel::Name(plan.placements[i].sharding));
    for (const int rank : plan.placements[i].ranks) one->add_ranks(rank);
    for (int rank = 0; plan.placements[i].sharding == Sharding::kRowWise && rank < asked.task.ranks;
         ++rank) {
      one->add_ranks(rank);
    }
  }
  const perfmodel::ShardCost& cost = plan.cost;
  for (size_t rank = 0; rank < cost.rank_micros.size(); ++rank) {
    v1::ShardEmbeddingsResponse::Rank* one = wire.add_ranks();
    one->set_look_ups_us(cost.rank_micros[rank]);
    one->set_table_bytes(cost.rank_bytes[rank]);
  }
  wire.set_forward_us(cost.forward);
  wire.set_backward_us(cost.backward);
  wire.set_exchange_us(cost.exchange);
  wire.set_step_us(cost.step());
  wire.set_imbalance(cost.imbalance());
  wire.set_in_hull(cost.in_hull);
  wire.set_bottleneck(Bottleneck(plan));
  wire.set_hardware_name(asked.hardware.name);
  if (asked.fabric != nullptr) wire.set_fabric(Escaped(asked.fabric->name()));
  wire.set_memory_bytes(asked.task.memory_bytes);
  return wire;
}

}  // namespace ebb::daemon
