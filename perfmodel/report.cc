#include "perfmodel/report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"

namespace ebb::perfmodel {
namespace {

constexpr double kMicrosPerHour = 3600e6;
constexpr double kBound = 0.75;  // of compute alone: there is nothing else to relieve

StepParts PartsOf(const Plan& plan, const Step& step) {
  StepParts parts;
  parts.compute = step.parts.compute;
  parts.exposed_communication = step.parts.exposed_communication;
  parts.host = step.parts.host;
  parts.data = step.parts.copy;
  parts.imbalance = step.parts.waiting;
  if (plan.strategy.pipeline > 1) {
    // Were all stages as long as the longest, ranks would wait for less work of their own.
    double most = 0, mean = 0;
    for (const RankStep& rank : step.ranks) {
      most = std::max(most, rank.parts.compute);
      mean += rank.parts.compute / static_cast<double>(step.ranks.size());
    }
    parts.imbalance = std::min(step.parts.waiting, most - mean);
    parts.bubble = step.parts.waiting - parts.imbalance;
  }
  return parts;
}

struct Sums {
  double compute = 0, communication = 0, measured = 0;
};

Sums SumsOf(const Plan& plan) {
  Sums sums;
  for (const PlanInput& input : plan.inputs) {
    (input.resource == Resource::kCompute ? sums.compute : sums.communication) += input.median;
    if (input.in_hull) sums.measured += input.median;
  }
  return sums;
}

// The plan's inputs, scaled to what the step shows of them.
std::vector<PlanInput> Shown(const Plan& plan, const StepParts& parts) {
  const Sums sums = SumsOf(plan);
  const double own = parts.compute + parts.exposed_communication;
  const double grows = own > 0 ? (own + parts.bubble + parts.imbalance) / own : 0;
  std::vector<PlanInput> shown = plan.inputs;
  for (PlanInput& input : shown) {
    const bool compute = input.resource == Resource::kCompute;
    const double all = compute ? sums.compute : sums.communication;
    const double of_step = compute ? parts.compute : parts.exposed_communication;
    const double scale = all > 0 ? of_step / all * grows : 0;
    input.median *= scale;
    input.low *= scale;
    input.high *= scale;
  }
  return shown;
}

Estimate StepEstimate(absl::Span<const PlanInput> shown, double micros) {
  std::map<std::string, std::pair<double, double>> by_source;
  Estimate estimate;
  estimate.median = micros;
  for (const PlanInput& input : shown) {
    auto& [down, up] = by_source[input.source];
    down += std::max(0.0, input.median - input.low);
    up += std::max(0.0, input.high - input.median);
    estimate.in_hull = estimate.in_hull && input.in_hull;
  }
  double down = 0, up = 0;
  for (const auto& [source, widths] : by_source) {
    down += widths.first * widths.first;
    up += widths.second * widths.second;
  }
  estimate.low = std::max(0.0, micros - std::sqrt(down));
  estimate.high = micros + std::sqrt(up);
  if (!shown.empty()) estimate.source = shown.front().source;
  return estimate;
}

// The longest input of a resource.
std::string Longest(const Plan& plan, Resource resource) {
  for (const PlanInput& input : plan.inputs) {
    if (input.resource == resource) return input.what;
  }
  return "nothing";
}

std::string ReliefOfCommunication(const Plan& plan, const std::string& what) {
  const Strategy& s = plan.strategy;
  if (absl::StrContains(what, "send_recv")) {
    return "cut where fewer bytes cross, use fewer stages, or faster links between them";
  }
  if (s.tensor > 1 && absl::StrContains(what, absl::StrCat("all_reduce of ", s.tensor)) &&
      (s.data != s.tensor || s.zero > 0)) {
    return "fewer tensor ranks, or faster links within a node";
  }
  if (s.zero >= 3) return "ZeRO 1 or 2, which gather parameters once, or a larger batch per GPU";
  return "a larger batch per GPU, more micro-batches between exchanges, or faster links";
}

void Explain(const Plan& plan, StrategyReport* report) {
  const StepParts& parts = report->parts;
  const double whole = std::max(parts.sum(), 1e-9);
  struct Candidate {
    double micros;
    std::string what, relief;
  };
  const Strategy& s = plan.strategy;
  const std::string exchanged = Longest(plan, Resource::kCommunication);
  const Candidate candidates[] = {
      {parts.exposed_communication,
       absl::StrCat("communication that compute does not hide, most of it ", exchanged),
       ReliefOfCommunication(plan, exchanged)},
      {parts.bubble, "the pipeline's bubble",
       s.schedule == Schedule::kInterleaved
           ? "more micro-batches, or more stages on a rank"
           : "more micro-batches, an interleaved schedule, or fewer stages"},
      {parts.host, "the host, which launches kernels more slowly than they run",
       "a larger batch per GPU, so that kernels are longer, or fewer of them"},
      {parts.data, "the batch on its way to the device", "a faster bus, or smaller data types"},
      {parts.imbalance, s.pipeline > 1 ? "stages of unequal length" : "ranks of unequal speed",
       s.pipeline > 1 ? "fewer stages: this model is not cut more evenly"
                      : "what slows the slowest rank"}};
  const Candidate* worst = &candidates[0];
  for (const Candidate& one : candidates) {
    if (one.micros > worst->micros) worst = &one;
  }
  if (parts.compute >= kBound * whole || worst->micros < 0.1 * whole) {
    report->bottleneck =
        absl::StrFormat("compute, %.0f %% of the step, most of it %s", 100 * parts.compute / whole,
                        Longest(plan, Resource::kCompute));
    report->relief = "a faster GPU, lower precision, or more GPUs";
    return;
  }
  report->bottleneck =
      absl::StrFormat("%s: %.0f %% of the step", worst->what, 100 * worst->micros / whole);
  report->relief = worst->relief;
}

}  // namespace

absl::StatusOr<StrategyReport> ReportOf(const Plan& plan, const ReportOptions& options,
                                        const StrategyReport* alone) {
  EBB_ASSIGN_OR_RETURN(const Step step,
                       Simulate(plan.programs, {.interference = options.interference}));
  StrategyReport report;
  report.strategy = plan.strategy;
  report.batch = plan.batch;
  report.parts = PartsOf(plan, step);
  report.shown = Shown(plan, report.parts);
  report.step = StepEstimate(report.shown, step.micros);
  const auto gpus = static_cast<double>(plan.strategy.ranks());
  if (step.micros > 0)
    report.samples_per_second = static_cast<double>(plan.batch) / step.micros * 1e6;
  if (alone != nullptr && alone->samples_per_second > 0) {
    report.efficiency = report.samples_per_second / gpus / alone->samples_per_second;
  }
  if (options.steps > 0) {
    report.hours = step.micros * static_cast<double>(options.steps) / kMicrosPerHour;
    if (options.price_per_gpu_hour > 0) {
      report.cost = *report.hours * gpus * options.price_per_gpu_hour;
    }
  }
  report.memory = plan.memory;
  const auto most = std::max_element(
      plan.memory.begin(), plan.memory.end(),
      [](const MemoryFit& a, const MemoryFit& b) { return a.total() < b.total(); });
  if (most != plan.memory.end()) {
    report.fits = options.memory_bytes <= 0 || most->total() <= options.memory_bytes;
    report.memory_text = options.memory_bytes > 0
                             ? FitText(*most, options.memory_bytes)
                             : absl::StrFormat("needs %.1f GiB", most->total() / std::exp2(30));
  }
  const Sums sums = SumsOf(plan);
  const double all = sums.compute + sums.communication;
  report.measured_share = all > 0 ? sums.measured / all : 1;
  for (const PlanInput& input : plan.inputs) {
    if (!input.in_hull) report.extrapolated.push_back(input);
  }
  Explain(plan, &report);
  return report;
}

}  // namespace ebb::perfmodel
