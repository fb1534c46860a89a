#include "runtime/ladder.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/check.h"
#include "base/status.h"

namespace ebb::runtime {
namespace {

using Kind = ResidentLayout::Kind;
using StateValue = ResidentLayout::StateValue;

// A weight of at least this part of all is a giant.
constexpr int64_t kGiantPart = 5;
// What is smaller than this part of all state stays on the device: many copies would move little.
constexpr int64_t kSmallPart = 4096;

struct Rung {
  const char* level;
  bool allowed;
  bool giants, weights;  // besides the slots
};

absl::flat_hash_set<std::string> Moved(const ResidentLayout& layout, const Rung& rung) {
  Bytes weights;
  for (const StateValue& value : layout.state) {
    if (value.kind == Kind::kParam) weights += value.bytes;
  }
  absl::flat_hash_set<std::string> names;
  for (const StateValue& value : layout.state) {
    if (value.bytes * kSmallPart < layout.state_end) continue;
    const bool giant = value.bytes * kGiantPart >= weights;
    const bool moves = value.kind == Kind::kSlot ||
                       (value.kind == Kind::kParam && (rung.weights || (rung.giants && giant)));
    if (moves) names.insert(value.name);
  }
  return names;
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
  const LadderSpec& spec = base.spec;
  const bool planned =
      std::all_of(base.resident->programs.begin(), base.resident->programs.end(),
                  [](const auto& step) { return step == nullptr || step->program != nullptr; });
  if (!planned) return ladder;  // state is not what makes it too large
  size_t moved_before = 0;
  for (const Rung& rung :
       {Rung{"offload", spec.offload, false, false}, Rung{"stream", spec.stream, true, false},
        Rung{"swap", spec.swap, true, true}}) {
    const absl::flat_hash_set<std::string> names = Moved(base.layout, rung);
    if (!rung.allowed || names.size() <= moved_before) continue;
    moved_before = names.size();
    auto plan = std::make_shared<MemoryPlan>();
    plan->level = rung.level;
    plan->placement = Place(base.layout, names);
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
