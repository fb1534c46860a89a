// How a training step is spread over GPUs, and what each of them then does: a rank program and what
// it needs of memory. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "perfmodel/memory_fit.h"
#include "perfmodel/pipeline.h"
#include "perfmodel/predictor.h"
#include "perfmodel/rank_program.h"
#include "perfmodel/training_step.h"

namespace ebb::perfmodel {

// Data x pipeline x tensor ranks, the tensor ranks next to each other, then the data ranks.
struct Strategy {
  int64_t data = 1, tensor = 1, pipeline = 1;
  int64_t micro_batches = 1;  // that a data rank's batch is cut in
  Schedule schedule = Schedule::kOneForwardOneBackward;
  int64_t chunks = 1;  // kInterleaved: stages of a pipeline rank, 2 or more
  // Of the data ranks, what each has a share of (Rajbhandari et al., "ZeRO", 2020): 1: optimizer
  // states; 2: gradients too; 3: parameters too.
  int zero = 0;
  double bucket_bytes = 25 << 20;  // of gradients that are exchanged at once, as PyTorch's DDP
  int64_t ranks() const { return data * tensor * pipeline; }
  bool operator==(const Strategy&) const = default;
};
// "1 GPU", "dp4", "dp2-tp2-pp2-m8-1f1b-zero1"; buckets other than 25 MiB are not told.
std::string ToString(const Strategy& strategy);
// InvalidArgument says what is no strategy.
absl::StatusOr<Strategy> ParseStrategy(absl::string_view text);
// InvalidArgument: a batch that ranks and micro-batches do not divide, fewer micro-batches than an
// interleaved schedule needs, a number out of range.
absl::Status CheckStrategy(const Strategy& strategy, int64_t batch);

struct StrategyInputs {
  StepMaker steps;
  int64_t batch = 1;  // of all ranks
  const OpPredictor* ops = nullptr;
  const CollectivePredictor* collectives = nullptr;  // null: one GPU alone
  double launch_us = 0;                              // of the host, for a kernel
  double bus_gbs = 0;                                // over which a batch comes; 0: it is there
};

// A kind of work of a rank that one source of times answers for.
struct PlanInput {
  std::string what;    // "gemm", "all_reduce of 4"
  std::string source;  // Estimate.source
  bool in_hull = true;
  Resource resource = Resource::kCompute;
  double median = 0, low = 0, high = 0;  // microseconds a step, of all pipeline ranks
};

struct Plan {
  Strategy strategy;
  int64_t batch = 1;
  // By pipeline rank; its data and tensor ranks all do the same. A collective of theirs has one
  // task here, as `scopes` of its number says.
  std::vector<RankProgram> programs;
  enum class Scope : uint8_t { kPipeline, kTensor, kData };
  std::vector<Scope> scopes;
  std::vector<MemoryFit> memory;
  std::vector<int> first_units;   // of the stages
  std::vector<PlanInput> inputs;  // the longest first
};

// Law of each: perfmodel/data_parallel.h, pipeline.h, tensor_parallel.h. Errors are those of
// CheckStrategy, of the steps, and of predictors that do not know an op or a collective; also
// InvalidArgument: a model of fewer ops than stages, or that tensor ranks cannot cut, or programs
// of more than 8 million tasks.
absl::StatusOr<Plan> MakePlan(const StrategyInputs& inputs, const Strategy& strategy);

// A program for each rank: rank = (pipeline x data ranks + data) x tensor ranks + tensor.
std::vector<RankProgram> AllRanks(const Plan& plan);

}  // namespace ebb::perfmodel
