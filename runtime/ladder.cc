#include "runtime/ladder.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"
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

}  // namespace

absl::StatusOr<Ladder> MakeLadder(const LadderBase& base, const device::Device& device,
                                  const StepOptions& options) {
  Ladder ladder = {base.resident};
  const bool planned =
      std::all_of(base.resident->programs.begin(), base.resident->programs.end(),
                  [](const auto& step) { return step == nullptr || step->program != nullptr; });
  if (!planned) return ladder;  // state is not what makes it too large
  const Candidates candidates = Movable(base.layout, base.spec);
  for (const StreamedPart& part :
       StreamOrder(*base.resident->programs[0], device.spec(), candidates.values, kParts)) {
    const absl::flat_hash_set<std::string> names(part.names.begin(), part.names.end());
    auto plan = std::make_shared<MemoryPlan>();
    plan->level = LevelName(candidates, part);
    plan->placement = Place(base.layout, names);
    plan->exposed_us = part.exposed_us;
    bool fits = true;
    for (size_t p = 0; p < plan->programs.size(); ++p) {
      if (base.resident->programs[p] == nullptr) continue;
      EBB_ASSIGN_OR_RETURN(plan->programs[p],
                           StreamStep(*base.resident->programs[p], names, device, options));
      fits &= plan->programs[p]->program != nullptr;
    }
    if (!fits) continue;
    plan->bus_bytes = plan->programs[0]->bus_bytes;
    ladder.push_back(std::move(plan));
  }
  return ladder;
}

}  // namespace ebb::runtime
