// MakePlan: where a model is cut, and what each pipeline rank then does and keeps.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "perfmodel/plan_rank.h"

namespace ebb::perfmodel {
namespace {

using graph::Phase;

constexpr double kMostTasks = 8e6;

absl::StatusOr<std::vector<StagePart>> Stages(const PlanCommon& common) {
  const TrainingStep& step = common.step;
  const int64_t count = common.strategy.pipeline * common.strategy.chunks;
  if (count > step.units) {
    return absl::InvalidArgumentError(absl::StrCat("strategy ", ToString(common.strategy),
                                                   ": a model of ", step.units,
                                                   " forward ops is not cut in ", count));
  }
  std::vector<double> micros(static_cast<size_t>(step.units), 0);
  for (const StepOp& op : step.ops) {
    if (op.phase == Phase::kUpdate) continue;
    EBB_ASSIGN_OR_RETURN(const Estimate time, common.timer->Of(op.work));
    EBB_ASSIGN_OR_RETURN(
        const Estimate reduce,
        common.timer->Of(Collective{.ranks = common.strategy.tensor, .bytes = op.reduce_bytes}));
    micros[static_cast<size_t>(op.unit)] += time.median + reduce.median;
  }
  const std::vector<int> firsts =
      InterleavedCuts(micros, step.crossing_bytes, static_cast<int>(common.strategy.pipeline),
                      static_cast<int>(common.strategy.chunks));
  std::vector<StagePart> stages;
  for (size_t i = 0; i < firsts.size(); ++i) {
    stages.push_back({firsts[i], i + 1 < firsts.size() ? firsts[i + 1] - 1 : step.units - 1});
  }
  return stages;
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const StrategyInputs& inputs, const Strategy& strategy) {
  EBB_RETURN_IF_ERROR(CheckStrategy(strategy, inputs.batch));
  EBB_ASSIGN_OR_RETURN(
      const TrainingStep step,
      inputs.steps(inputs.batch / strategy.data / strategy.micro_batches, strategy.tensor));
  EBB_RETURN_IF_ERROR(Verify(step));
  if (static_cast<double>(step.ops.size()) * static_cast<double>(strategy.micro_batches) >
      kMostTasks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "strategy ", ToString(strategy), ": ", step.ops.size(), " ops in ", strategy.micro_batches,
        " micro-batches are more tasks than are simulated (8 million)"));
  }
  if (strategy.tensor > 1 && std::none_of(step.ops.begin(), step.ops.end(),
                                          [](const StepOp& op) { return op.reduce_bytes > 0; })) {
    return absl::InvalidArgumentError(absl::StrCat("strategy ", ToString(strategy),
                                                   ": the model has no pair of linear layers that ",
                                                   strategy.tensor, " tensor ranks divide"));
  }
  Plan plan{.strategy = strategy, .batch = inputs.batch};
  Timer timer(inputs);
  PlanNumbers numbers(&plan.scopes);
  PlanCommon common{inputs, strategy, step, {}, &timer, &numbers};
  EBB_ASSIGN_OR_RETURN(common.stages, Stages(common));
  for (const StagePart& stage : common.stages) plan.first_units.push_back(stage.first);
  const DataParallel data{strategy.data, strategy.zero, strategy.bucket_bytes};
  for (int64_t rank = 0; rank < strategy.pipeline; ++rank) {
    const std::vector<PipelineSlot> order = PipelineOrder(
        strategy.schedule, rank, strategy.pipeline, strategy.micro_batches, strategy.chunks);
    EBB_ASSIGN_OR_RETURN(RankProgram program, MakeRank(common, rank, order));
    plan.programs.push_back(std::move(program));
    std::vector<StagePart> parts;
    for (int64_t chunk = 0; chunk < strategy.chunks; ++chunk) {
      parts.push_back(common.stages[static_cast<size_t>(chunk * strategy.pipeline + rank)]);
    }
    plan.memory.push_back(FitOf(step, parts, order, data, strategy.micro_batches));
  }
  plan.inputs = timer.Inputs();
  return plan;
}

}  // namespace ebb::perfmodel
