// How long what a strategy is made of takes, asked of predictors once for each kind and size, and
// what the answers rest on. Internal to strategies; not thread-safe.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "perfmodel/strategy.h"

namespace ebb::perfmodel {

class Timer {
 public:
  explicit Timer(const StrategyInputs& inputs) : inputs_(inputs) {}

  // Microseconds; counted as one more of the plan's inputs by Count.
  absl::StatusOr<Estimate> Of(const Work& work);
  absl::StatusOr<Estimate> Of(const Collective& collective);
  void Count(const Work& work, const Estimate& estimate);
  void Count(const Collective& collective, const Estimate& estimate);

  std::vector<PlanInput> Inputs() const;  // the longest first

 private:
  using WorkKey = std::tuple<Family, graph::DType, int64_t, int64_t, int64_t, int64_t, int64_t,
                             int64_t, double, double>;
  void Count(std::string what, Resource resource, const Estimate& estimate);

  const StrategyInputs& inputs_;
  std::map<WorkKey, Estimate> works_;
  std::map<std::tuple<CollectiveKind, int64_t, int64_t, double>, Estimate> collectives_;
  std::map<std::tuple<std::string, std::string, bool>, PlanInput> counted_;
};

}  // namespace ebb::perfmodel
