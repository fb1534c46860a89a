#include "perfmodel/timed_step.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace ebb::perfmodel {

absl::StatusOr<Estimate> Timer::Of(const Work& work) {
  if (work.flops == 0 && work.bytes == 0) return Estimate{};
  const WorkKey key(work.family, work.dtype, work.batch, work.m, work.n, work.k, work.window,
                    work.stride, work.flops, work.bytes);
  const auto it = works_.find(key);
  if (it != works_.end()) return it->second;
  EBB_ASSIGN_OR_RETURN(const Estimate estimate, inputs_.ops->Predict(work));
  return works_[key] = estimate;
}

absl::StatusOr<Estimate> Timer::Of(const Collective& collective) {
  if (collective.ranks <= 1 || collective.bytes <= 0) return Estimate{};
  if (inputs_.collectives == nullptr) {
    return absl::InvalidArgumentError("several GPUs need a fabric that says how they are joined");
  }
  const auto key =
      std::make_tuple(collective.kind, collective.ranks, collective.stride, collective.bytes);
  const auto it = collectives_.find(key);
  if (it != collectives_.end()) return it->second;
  EBB_ASSIGN_OR_RETURN(const Estimate estimate, inputs_.collectives->Predict(collective));
  return collectives_[key] = estimate;
}

void Timer::Count(std::string what, Resource resource, const Estimate& estimate) {
  if (estimate.median <= 0) return;
  PlanInput& input = counted_[{what, estimate.source, estimate.in_hull}];
  input.what = std::move(what);
  input.source = estimate.source;
  input.in_hull = estimate.in_hull;
  input.resource = resource;
  input.median += estimate.median;
  input.low += estimate.low;
  input.high += estimate.high;
}

void Timer::Count(const Work& work, const Estimate& estimate) {
  Count(std::string(Name(work.family)), Resource::kCompute, estimate);
}

void Timer::Count(const Collective& collective, const Estimate& estimate) {
  Count(absl::StrCat(Name(collective.kind), " of ", collective.ranks), Resource::kCommunication,
        estimate);
}

std::vector<PlanInput> Timer::Inputs() const {
  std::vector<PlanInput> inputs;
  for (const auto& [key, input] : counted_) inputs.push_back(input);
  std::stable_sort(inputs.begin(), inputs.end(),
                   [](const PlanInput& a, const PlanInput& b) { return a.median > b.median; });
  return inputs;
}

}  // namespace ebb::perfmodel
