#include "client/cli/predicted.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/units.h"
#include "client/cli/render.h"
#include "perfmodel/report_text.h"

namespace ebb::cli {
namespace {

using perfmodel::StrategyReport;

constexpr int kMostRows = 12;    // of one number of GPUs
constexpr int kMostRefused = 4;  // likewise
constexpr int kMostTables = 6;   // named in a rank's row

std::string Size(double bytes) { return FormatBytes(Bytes(static_cast<int64_t>(bytes))); }

// All kinds of hardware and numbers of GPUs: who is there first, and for least.
std::string Choices(const v1::PredictResponse& response) {
  const v1::StrategyComparison* fastest = nullptr;
  const v1::StrategyComparison* cheapest = nullptr;
  for (const v1::StrategyComparison& one : response.comparisons()) {
    if (one.ranking().empty() || !one.ranking(0).fits()) continue;
    const v1::StrategyReport& best = one.ranking(0);
    if (fastest == nullptr || best.step().median_us() < fastest->ranking(0).step().median_us()) {
      fastest = &one;
    }
    if (!best.has_cost()) continue;
    if (cheapest == nullptr || best.cost() < cheapest->ranking(0).cost()) cheapest = &one;
  }
  const auto text = [](const char* what, const v1::StrategyComparison& one) {
    const v1::StrategyReport& best = one.ranking(0);
    std::string line = absl::StrFormat("%s: %s on %d x %s, %.3f ms a step", what, best.strategy(),
                                       one.gpus(), one.hardware(), best.step().median_us() / 1e3);
    if (best.has_hours()) absl::StrAppendFormat(&line, ", %.4g h", best.hours());
    if (best.has_cost()) absl::StrAppendFormat(&line, ", cost %.4g", best.cost());
    return line + "\n";
  };
  if (response.comparisons_size() < 2 || fastest == nullptr) return "";
  return absl::StrCat(text("fastest", *fastest),
                      cheapest == nullptr ? "" : text("cheapest", *cheapest));
}

std::string ToTheEnd(const v1::PredictResponse& response, const v1::StrategyReport& best) {
  if (!best.has_hours()) return "";
  const double seconds = best.hours() * 3600;
  std::string text = absl::StrCat(
      "  to the end: ", WithCommas(response.steps()), " steps take ",
      seconds < 60 ? absl::StrFormat("%.3g s", seconds) : ShortDuration(absl::Seconds(seconds)));
  if (best.has_cost()) absl::StrAppendFormat(&text, " and cost %.3g", best.cost());
  return text + "\n";
}

std::string Header(const v1::PredictResponse& response, const v1::StrategyComparison& one) {
  return absl::StrCat(
      one.hardware_name(), " (kernels: ", one.kernels(),
      one.fabric().empty() ? "" : absl::StrCat("; fabric ", one.fabric()), "), batch ",
      WithCommas(response.batch_size()),
      response.steps() > 0 ? absl::StrCat(", ", WithCommas(response.steps()), " steps") : "", "\n");
}

std::string HardwareText(const v1::PredictResponse& response, const std::string& hardware) {
  std::string text, below;
  std::vector<StrategyReport> rows;
  const v1::StrategyComparison* most = nullptr;  // GPUs on which something is possible
  for (const v1::StrategyComparison& one : response.comparisons()) {
    if (one.hardware() != hardware) continue;
    if (text.empty()) text = Header(response, one);
    if (!one.ranking().empty()) most = &one;
    for (int i = 0; i < std::min(one.ranking_size(), kMostRows); ++i) {
      rows.push_back(FromWire(one.ranking(i)));
    }
    if (one.ranking_size() > kMostRows) {
      absl::StrAppend(&below, one.ranking_size() - kMostRows, " slower ones on ", one.gpus(),
                      " GPUs: --json lists them\n");
    }
    for (int i = 0; i < std::min(one.refused_size(), kMostRefused); ++i) {
      absl::StrAppend(&below, "not possible: ", one.refused(i).why(), "\n");
    }
    if (one.refused_size() > kMostRefused) {
      absl::StrAppend(&below, "not possible either: ", one.refused_size() - kMostRefused,
                      " others on ", one.gpus(), " GPUs\n");
    }
  }
  if (!rows.empty()) absl::StrAppend(&text, perfmodel::StrategyTable(rows));
  absl::StrAppend(&text, below);
  if (most == nullptr) return text;
  absl::StrAppend(&text, "\n", perfmodel::StrategyText(FromWire(most->ranking(0))));
  absl::StrAppend(&text, ToTheEnd(response, most->ranking(0)));
  if (most->ranking_size() > 1) {
    absl::StrAppendFormat(
        &text,
        "  expected regret: %.1f %% of a step, since errors may hide that another "
        "is faster\n",
        100 * most->expected_regret());
  }
  const std::vector<StrategyReport> best = BestReports(response, hardware);
  if (best.size() > 1) absl::StrAppend(&text, "\n", perfmodel::ScalingText(best));
  return text;
}

}  // namespace

StrategyReport FromWire(const v1::StrategyReport& wire) {
  StrategyReport report;
  const auto strategy = perfmodel::ParseStrategy(wire.strategy());
  if (strategy.ok()) report.strategy = *strategy;
  report.batch = wire.batch_size();
  report.step = {.median = wire.step().median_us(),
                 .low = wire.step().low_us(),
                 .high = wire.step().high_us(),
                 .in_hull = wire.step().in_hull(),
                 .source = wire.step().source()};
  report.samples_per_second = wire.samples_per_second();
  if (wire.has_efficiency()) report.efficiency = wire.efficiency();
  if (wire.has_hours()) report.hours = wire.hours();
  if (wire.has_cost()) report.cost = wire.cost();
  report.parts = {.compute = wire.parts().compute_us(),
                  .exposed_communication = wire.parts().exposed_communication_us(),
                  .bubble = wire.parts().bubble_us(),
                  .host = wire.parts().host_us(),
                  .data = wire.parts().data_us(),
                  .imbalance = wire.parts().imbalance_us()};
  for (const auto& fit : wire.memory()) {
    report.memory.push_back({.params = fit.params_bytes(),
                             .gradients = fit.gradient_bytes(),
                             .optimizer = fit.optimizer_bytes(),
                             .activations = fit.activation_bytes(),
                             .working = fit.working_bytes(),
                             .buckets = fit.bucket_bytes(),
                             .fixed = fit.fixed_bytes()});
  }
  report.fits = wire.fits();
  report.memory_text = wire.memory_text();
  report.measured_share = wire.measured_share();
  for (const auto& input : wire.extrapolated()) {
    perfmodel::PlanInput one;
    one.what = input.what();
    one.source = input.source();
    one.in_hull = false;
    one.median = input.median_us();
    report.extrapolated.push_back(std::move(one));
  }
  report.bottleneck = wire.bottleneck();
  report.relief = wire.relief();
  return report;
}

std::vector<StrategyReport> BestReports(const v1::PredictResponse& response,
                                        const std::string& hardware) {
  std::vector<StrategyReport> best;
  for (const v1::StrategyComparison& one : response.comparisons()) {
    if (one.hardware() == hardware && !one.ranking().empty()) {
      best.push_back(FromWire(one.ranking(0)));
    }
  }
  return best;
}

std::vector<std::string> HardwareOf(const v1::PredictResponse& response) {
  std::vector<std::string> names;
  for (const v1::StrategyComparison& one : response.comparisons()) {
    if (std::find(names.begin(), names.end(), one.hardware()) == names.end()) {
      names.push_back(one.hardware());
    }
  }
  return names;
}

std::string PredictText(const v1::PredictResponse& response) {
  std::string text;
  for (const std::string& hardware : HardwareOf(response)) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", HardwareText(response, hardware));
  }
  const std::string choices = Choices(response);
  if (!choices.empty()) absl::StrAppend(&text, "\n", choices);
  if (!response.note().empty()) absl::StrAppend(&text, "\n", response.note(), "\n");
  return text;
}

std::string ShardText(const v1::ShardEmbeddingsResponse& response) {
  std::vector<std::vector<std::string>> held(static_cast<size_t>(response.ranks_size()));
  std::vector<std::vector<std::string>> tables = {{"table", "sharding", "ranks"}};
  for (const auto& placement : response.placements()) {
    for (const int rank : placement.ranks()) {
      if (rank >= 0 && rank < response.ranks_size()) {
        held[static_cast<size_t>(rank)].push_back(placement.table());
      }
    }
    tables.push_back({placement.table(), placement.sharding(),
                      placement.ranks_size() == response.ranks_size() && response.ranks_size() > 1
                          ? "all"
                          : absl::StrJoin(placement.ranks(), ",")});
  }
  std::vector<std::vector<std::string>> ranks = {{"rank", "look-ups", "tables", "bytes", "holds"}};
  for (int rank = 0; rank < response.ranks_size(); ++rank) {
    std::vector<std::string>& names = held[static_cast<size_t>(rank)];
    const size_t count = names.size();
    if (count > kMostTables) names.resize(kMostTables);
    ranks.push_back({absl::StrCat(rank),
                     absl::StrFormat("%.1f us", response.ranks(rank).look_ups_us()),
                     absl::StrCat(count), Size(response.ranks(rank).table_bytes()),
                     absl::StrCat(absl::StrJoin(names, ", "), count > kMostTables ? ", ..." : "")});
  }
  std::string text = absl::StrCat(Table(tables), "\n", Table(ranks), "\n");
  absl::StrAppendFormat(
      &text, "step %.1f us: look-ups forward %.1f, backward %.1f, exchanges %.1f; imbalance %.2f\n",
      response.step_us(), response.forward_us(), response.backward_us(), response.exchange_us(),
      response.imbalance());
  absl::StrAppend(&text, response.bottleneck(), "\n", "predicted for ", response.hardware_name(),
                  response.fabric().empty() ? "" : absl::StrCat(", fabric ", response.fabric()),
                  "; a rank may use ", Size(response.memory_bytes()),
                  response.in_hull() ? "" : "; extrapolated: from data sheets, not measured", "\n");
  return text;
}

}  // namespace ebb::cli
