// CompareStrategies: reports of many strategies, ranked.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "base/status.h"
#include "perfmodel/report.h"

namespace ebb::perfmodel {
namespace {

constexpr int64_t kMostTensorRanks = 8;  // GPUs of a node
constexpr int kDraws = 2000;
constexpr double kEighty = 1.2816;  // standard deviations on each side of an 80 % interval

// In [0, 1), from a generator whose numbers the standard fixes.
double Uniform(std::mt19937_64* random) { return std::ldexp(double((*random)() >> 11), -53); }

double Normal(std::mt19937_64* random) {
  const double radius = std::sqrt(-2 * std::log(1 - Uniform(random)));
  return radius * std::cos(2 * std::numbers::pi * Uniform(random));
}

// The mean of first / fastest - 1 when every step time is log-normal about its median.
double ExpectedRegret(absl::Span<const StrategyReport> ranking) {
  std::vector<std::pair<double, double>> candidates;  // ln median, deviation
  for (const StrategyReport& report : ranking) {
    if (!report.fits || report.step.median <= 0) continue;
    const double low = std::max(report.step.low, 1e-3 * report.step.median);
    candidates.emplace_back(std::log(report.step.median),
                            std::log(std::max(report.step.high, low) / low) / 2 / kEighty);
  }
  if (candidates.size() < 2) return 0;
  std::mt19937_64 random(1);
  double sum = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    double first = 0, least = 0;
    for (size_t i = 0; i < candidates.size(); ++i) {
      const double one = candidates[i].first + candidates[i].second * Normal(&random);
      if (i == 0) first = least = one;
      least = std::min(least, one);
    }
    sum += std::expm1(first - least);
  }
  return sum / kDraws;
}

}  // namespace

absl::StatusOr<Comparison> CompareStrategies(const StrategyInputs& inputs,
                                             absl::Span<const Strategy> candidates,
                                             const ReportOptions& options) {
  if (candidates.empty()) return absl::InvalidArgumentError("no strategies to compare");
  Comparison comparison;
  EBB_ASSIGN_OR_RETURN(const Plan one, MakePlan(inputs, Strategy{}));
  EBB_ASSIGN_OR_RETURN(comparison.alone, ReportOf(one, options));
  comparison.alone.efficiency = 1;
  for (const Strategy& strategy : candidates) {
    const absl::StatusOr<Plan> plan = MakePlan(inputs, strategy);
    if (plan.status().code() == absl::StatusCode::kInvalidArgument) {
      comparison.refused.push_back({strategy, std::string(plan.status().message())});
      continue;
    }
    if (!plan.ok()) return plan.status();
    EBB_ASSIGN_OR_RETURN(StrategyReport report, ReportOf(*plan, options, &comparison.alone));
    comparison.ranking.push_back(std::move(report));
  }
  std::stable_sort(comparison.ranking.begin(), comparison.ranking.end(),
                   [](const StrategyReport& a, const StrategyReport& b) {
                     if (a.fits != b.fits) return a.fits;
                     return a.step.median < b.step.median;
                   });
  comparison.expected_regret = ExpectedRegret(comparison.ranking);
  return comparison;
}

std::vector<Strategy> StrategyGrid(int64_t gpus, int64_t batch) {
  std::vector<Strategy> grid;
  const auto add = [&](const Strategy& strategy) {
    if (CheckStrategy(strategy, batch).ok()) grid.push_back(strategy);
  };
  for (int64_t tensor = 1; tensor <= std::min(gpus, kMostTensorRanks); ++tensor) {
    for (int64_t pipeline = 1; gpus % tensor == 0 && pipeline <= gpus / tensor; ++pipeline) {
      if (gpus / tensor % pipeline != 0) continue;
      const int64_t data = gpus / tensor / pipeline;
      const int most_zero = data == 1 ? 0 : tensor == 1 && pipeline == 1 ? 3 : 1;
      for (int zero = 0; zero <= most_zero; ++zero) {
        Strategy strategy{.data = data, .tensor = tensor, .pipeline = pipeline, .zero = zero};
        if (pipeline == 1) {
          add(strategy);
          continue;
        }
        for (const int64_t times : {1, 2, 4, 8}) {
          strategy.micro_batches = times * pipeline;
          strategy.schedule = Schedule::kOneForwardOneBackward;
          strategy.chunks = 1;
          add(strategy);
          strategy.schedule = Schedule::kInterleaved;
          strategy.chunks = 2;
          add(strategy);
        }
      }
    }
  }
  return grid;
}

}  // namespace ebb::perfmodel
