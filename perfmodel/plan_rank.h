// What one pipeline rank of a plan does. Internal to perfmodel/plan.cc.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "perfmodel/strategy.h"
#include "perfmodel/timed_step.h"

namespace ebb::perfmodel {

// Numbers of collectives, shared by the pipeline ranks of a plan.
class PlanNumbers {
 public:
  explicit PlanNumbers(std::vector<Plan::Scope>* scopes) : scopes_(*scopes) {}
  int New(Plan::Scope scope) {
    scopes_.push_back(scope);
    return static_cast<int>(scopes_.size()) - 1;
  }
  // The same for both ends.
  int OfPipeline(int64_t kind, int64_t stage, int64_t micro) {
    const auto [it, is_new] = shared_.try_emplace({kind, stage, micro}, -1);
    if (is_new) it->second = New(Plan::Scope::kPipeline);
    return it->second;
  }

 private:
  std::vector<Plan::Scope>& scopes_;
  std::map<std::tuple<int64_t, int64_t, int64_t>, int> shared_;
};

// What all pipeline ranks of a plan share.
struct PlanCommon {
  const StrategyInputs& inputs;
  const Strategy& strategy;
  const TrainingStep& step;
  std::vector<StagePart> stages;  // of all chunks
  Timer* timer = nullptr;
  PlanNumbers* numbers = nullptr;
};

// The rank works through `order`, then exchanges what is left and updates.
absl::StatusOr<RankProgram> MakeRank(const PlanCommon& common, int64_t rank,
                                     absl::Span<const PipelineSlot> order);

}  // namespace ebb::perfmodel
