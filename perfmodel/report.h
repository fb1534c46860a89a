// What a strategy would give: step time, throughput, cost, where the time goes, whether it fits,
// and how sure that is; and which of several is best. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "perfmodel/interference.h"
#include "perfmodel/simulate.h"
#include "perfmodel/strategy.h"

namespace ebb::perfmodel {

struct ReportOptions {
  double memory_bytes = 0;        // of a GPU; 0: not known, everything fits
  int64_t steps = 0;              // to the job's stop; 0: not known
  double price_per_gpu_hour = 0;  // in any currency; 0: not known
  Interference interference = {};
};

// Microseconds of a step, mean over the ranks; they sum to the step.
struct StepParts {
  double compute = 0;
  double exposed_communication = 0;  // that no compute hides
  double bubble = 0;                 // of a pipeline: stages wait for each other
  double host = 0;                   // kernels end before their next is launched
  double data = 0;                   // the batch is copied
  double imbalance = 0;              // ranks wait for ranks with more to do
  double sum() const { return compute + exposed_communication + bubble + host + data + imbalance; }
};

struct StrategyReport {
  Strategy strategy;
  int64_t batch = 1;
  Estimate step;  // in_hull: all that it is made of is; source: the longest part
  double samples_per_second = 0;
  std::optional<double> efficiency;  // samples a second and GPU, over those of one GPU alone
  std::optional<double> hours;       // of all steps
  std::optional<double> cost;        // of all steps on all GPUs
  StepParts parts;
  std::vector<MemoryFit> memory;  // by pipeline rank
  bool fits = true;
  std::string memory_text;  // of the rank that needs most
  // Of the time of kernels and collectives, the share that rests on measurements of such sizes.
  double measured_share = 0;
  std::vector<PlanInput> extrapolated;  // what does not, the longest first
  // All of it as the step shows it: what is hidden counts less, what others wait for counts more;
  // with host and data they sum to the step.
  std::vector<PlanInput> shown;
  std::string bottleneck, relief;  // in words
};

// `alone`: of one GPU with the same batch, for the efficiency. The interval: errors of one source
// go together, those of different ones are independent; waiting grows as what is waited for.
// Errors are Simulate's.
absl::StatusOr<StrategyReport> ReportOf(const Plan& plan, const ReportOptions& options,
                                        const StrategyReport* alone = nullptr);

struct Comparison {
  StrategyReport alone;                 // one GPU, the reference of all
  std::vector<StrategyReport> ranking;  // those that fit first, by time of a step
  struct Refused {
    Strategy strategy;
    std::string why;
  };
  std::vector<Refused> refused;  // that the batch or the model does not allow
  // By how much the first is expected to be slower than the truly fastest that fits, as a share.
  // Of one kind of kernel or collective and source, strategies with the same micro-batch and tensor
  // ranks err alike; others have half of the error's variance in common (that is assumed).
  double expected_regret = 0;
};

// Unimplemented and other faults of steps and predictors end it; strategies that batch or model do
// not allow are refused one by one. InvalidArgument: no candidates.
absl::StatusOr<Comparison> CompareStrategies(const StrategyInputs& inputs,
                                             absl::Span<const Strategy> candidates,
                                             const ReportOptions& options);

// What is worth a comparison on that many GPUs: data, tensor (at most 8, next to each other) and
// pipeline ranks in all ways that divide the batch, pipelines with several numbers of micro-batches
// as 1F1B and interleaved, data ranks alone with ZeRO 0 to 3, with others 0 and 1.
std::vector<Strategy> StrategyGrid(int64_t gpus, int64_t batch);

}  // namespace ebb::perfmodel
