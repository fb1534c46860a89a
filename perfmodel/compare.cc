// CompareStrategies: reports of many strategies, ranked.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <random>

#include "absl/strings/str_cat.h"
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

// What a report's time is made of, with the number of what draws each part's error.
struct Part {
  size_t common = 0, own = 0;
  double micros = 0, deviation = 0;  // of the logarithm
};
struct Candidate {
  double fixed = 0;  // without error
  std::vector<Part> parts;
};

class Draws {
 public:
  Candidate Of(const StrategyReport& report) {
    const Strategy& s = report.strategy;
    const std::string shapes = absl::StrCat(report.batch / s.data / s.micro_batches, " ", s.tensor);
    Candidate candidate{.fixed = report.step.median};
    for (const PlanInput& input : report.shown) {
      if (input.median <= 0) continue;
      const double low = std::max(input.low, 1e-3 * input.median);
      const std::string common = absl::StrCat(input.what, "\n", input.source);
      candidate.parts.push_back({Number(common), Number(absl::StrCat(common, "\n", shapes)),
                                 input.median,
                                 std::log(std::max(input.high, low) / low) / 2 / kEighty});
      candidate.fixed -= input.median;
    }
    return candidate;
  }
  size_t count() const { return numbers_.size(); }

 private:
  size_t Number(const std::string& what) {
    return numbers_.try_emplace(what, numbers_.size()).first->second;
  }
  std::map<std::string, size_t> numbers_;
};

// The mean of first / fastest - 1 over draws of all errors, log-normal.
double ExpectedRegret(absl::Span<const StrategyReport> ranking) {
  Draws draws;
  std::vector<Candidate> candidates;
  for (const StrategyReport& report : ranking) {
    if (report.fits) candidates.push_back(draws.Of(report));
  }
  if (candidates.size() < 2) return 0;
  std::mt19937_64 random(1);
  std::vector<double> normal(draws.count());
  double sum = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    for (double& one : normal) one = Normal(&random);
    double first = 0, least = 0;
    for (size_t i = 0; i < candidates.size(); ++i) {
      double micros = candidates[i].fixed;
      for (const Part& part : candidates[i].parts) {
        const double error = std::sqrt(0.5) * (normal[part.common] + normal[part.own]);
        micros += part.micros * std::exp(part.deviation * error);
      }
      if (i == 0) first = least = micros;
      least = std::min(least, micros);
    }
    if (least > 0) sum += first / least - 1;
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
