#include "runtime/ladder.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"
#include "graph/recompute.h"
#include "runtime/node_cost.h"
#include "runtime/stream_order.h"

namespace ebb::runtime {
namespace {

using Kind = ResidentLayout::Kind;
using StateValue = ResidentLayout::StateValue;

// A weight of at least this part of all is a giant.
constexpr int64_t kGiantPart = 5;
// What is smaller than this part of all state stays on the device: many copies would move little.
constexpr int64_t kSmallPart = 4096;

// Steps of the ladder, each with as many bytes more on the host.
constexpr int kParts = 8;

struct Candidates {
  std::vector<StateValue> values;
  absl::flat_hash_set<std::string> giants, weights;  // their names; the others are slots
  Bytes bytes;
};

Candidates Movable(const ResidentLayout& layout, const LadderSpec& spec) {
  Bytes weights;
  for (const StateValue& value : layout.state) {
    if (value.kind == Kind::kParam) weights += value.bytes;
  }
  Candidates candidates;
  for (const StateValue& value : layout.state) {
    if (value.kind == Kind::kBuffer || value.bytes * kSmallPart < layout.state_end) continue;
    const bool weight = value.kind == Kind::kParam;
    const bool giant = weight && value.bytes * kGiantPart >= weights;
    if (!(weight ? spec.swap || (spec.stream && giant) : spec.offload)) continue;
    if (weight) (giant ? candidates.giants : candidates.weights).insert(value.name);
    candidates.values.push_back(value);
    candidates.bytes += value.bytes;
  }
  return candidates;
}

// "offload 25 %": what the part moves, and how much of all that may be moved.
std::string LevelName(const Candidates& candidates, const StreamedPart& part) {
  const auto any = [&](const absl::flat_hash_set<std::string>& names) {
    return std::any_of(part.names.begin(), part.names.end(),
                       [&](const std::string& name) { return names.contains(name); });
  };
  const char* name = any(candidates.weights)  ? "swap"
                     : any(candidates.giants) ? "stream"
                                              : "offload";
  return absl::StrFormat("%s %.0f %%", name, 100 * (part.bytes / candidates.bytes));
}

Placement Place(const ResidentLayout& layout, const absl::flat_hash_set<std::string>& on_host) {
  std::vector<Placement::Piece> pieces;
  for (const StateValue& value : layout.state) {
    pieces.push_back({value.begin, value.bytes, on_host.contains(value.name)});
  }
  pieces.push_back({layout.state_end, layout.bytes - layout.state_end, false});
  return Placement(pieces);
}

// `programs` with the part on the host; null when that needs too much.
absl::StatusOr<std::shared_ptr<MemoryPlan>> Stream(
    const LadderBase& base, const StepPrograms& programs, const Candidates& candidates,
    const StreamedPart& part, const device::Device& device, const StepOptions& options) {
  const absl::flat_hash_set<std::string> names(part.names.begin(), part.names.end());
  auto plan = std::make_shared<MemoryPlan>();
  plan->level = LevelName(candidates, part);
  plan->placement = Place(base.layout, names);
  plan->exposed_us = part.exposed_us;
  for (size_t p = 0; p < programs.size(); ++p) {
    if (programs[p] == nullptr) continue;
    EBB_ASSIGN_OR_RETURN(plan->programs[p], StreamStep(*programs[p], names, device, options));
  }
  if (!plan->IsPlanned()) return nullptr;
  plan->bus_bytes = plan->programs[0]->bus_bytes;
  return plan;
}

absl::Status AddStreamed(const LadderBase& base, const device::Device& device,
                         const StepOptions& options, Ladder* ladder) {
  const StepPrograms& programs = base.resident->programs;
  if (!base.resident->IsPlanned()) return absl::OkStatus();  // state is not what makes it too large
  const Candidates candidates = Movable(base.layout, base.spec);
  for (const StreamedPart& part :
       StreamOrder(*programs[0], device.spec(), candidates.values, kParts)) {
    EBB_ASSIGN_OR_RETURN(auto plan, Stream(base, programs, candidates, part, device, options));
    if (plan != nullptr) ladder->push_back(std::move(plan));
  }
  return absl::OkStatus();
}

absl::Status AddRecomputed(const LadderBase& base, double most_cost, const device::Device& device,
                           const StepOptions& options, Ladder* ladder) {
  if (!base.spec.recompute) return absl::OkStatus();
  const StepProgram& training = *base.resident->programs[0];
  EBB_ASSIGN_OR_RETURN(
      graph::Recomputed again,
      graph::Recompute(
          training.graph,
          {.most_cost = most_cost, .cost = [&](const graph::Graph& graph, const graph::Node& node) {
             return NodeMicros(device.spec(), graph, node);
           }}));
  if (again.values.empty()) return absl::OkStatus();
  EBB_ASSIGN_OR_RETURN(std::unique_ptr<StepProgram> step,
                       BuildStep(std::move(again.graph), device, options));
  step->inputs = training.inputs;
  auto plan = std::make_shared<MemoryPlan>();
  plan->level = absl::StrFormat("recompute %.0f %%", most_cost * 100);
  plan->programs = {std::move(step), base.resident->programs[1]};
  plan->placement = base.resident->placement;
  plan->exposed_us = again.cost_us;
  if (!plan->IsPlanned()) return absl::OkStatus();
  ladder->push_back(plan);
  const Candidates candidates = Movable(base.layout, base.spec);
  const auto parts = StreamOrder(*plan->programs[0], device.spec(), candidates.values, 1);
  if (parts.empty()) return absl::OkStatus();
  EBB_ASSIGN_OR_RETURN(auto streamed,
                       Stream(base, plan->programs, candidates, parts.back(), device, options));
  if (streamed == nullptr) return absl::OkStatus();
  streamed->level = absl::StrCat(plan->level, ", ", streamed->level);
  streamed->exposed_us += plan->exposed_us;
  ladder->push_back(std::move(streamed));
  return absl::OkStatus();
}

}  // namespace

bool MemoryPlan::IsPlanned() const {
  return std::all_of(programs.begin(), programs.end(),
                     [](const auto& step) { return step == nullptr || step->program != nullptr; });
}

absl::Status Deepen(const LadderBase& base, LadderDepth depth, const device::Device& device,
                    const StepOptions& options, Ladder* ladder) {
  switch (depth) {
    case LadderDepth::kResident:
      break;
    case LadderDepth::kStreamed:
      return AddStreamed(base, device, options, ladder);
    case LadderDepth::kRecomputed:
      for (const double most_cost : {0.02, 0.10}) {
        EBB_RETURN_IF_ERROR(AddRecomputed(base, most_cost, device, options, ladder));
      }
      break;
  }
  return absl::OkStatus();
}

}  // namespace ebb::runtime
