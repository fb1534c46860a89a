#include "scheduler/policies.h"

#include <iterator>
#include <utility>

namespace ebb::scheduler {
namespace {

struct Row {
  Policy policy;
  const char* name;
  double (*key)(const Candidate& candidate);  // the least goes first
};

constexpr Row kTable[] = {
    {Policy::kFair, "fair", [](const Candidate& c) { return c.attained + c.pending; }},
    {Policy::kFifo, "fifo", [](const Candidate&) { return 0.0; }},
    {Policy::kPriority, "priority", [](const Candidate& c) { return -double(c.params.priority); }},
    {Policy::kShortest, "shortest", [](const Candidate& c) { return c.step_duration; }},
};

const Row& RowOf(Policy policy) { return kTable[static_cast<size_t>(policy)]; }

constexpr bool TableMatchesEnum() {
  for (size_t i = 0; i < std::size(kTable); ++i) {
    if (static_cast<size_t>(kTable[i].policy) != i) return false;
  }
  return true;
}
static_assert(TableMatchesEnum());

}  // namespace

absl::string_view Name(Policy policy) { return RowOf(policy).name; }

std::optional<Policy> PolicyFromName(absl::string_view name) {
  for (const Row& row : kTable) {
    if (name == row.name) return row.policy;
  }
  return std::nullopt;
}

bool StartsBefore(Policy policy, const Candidate& a, const Candidate& b) {
  if (Aged(a) != Aged(b)) return Aged(a);
  if (!Aged(a)) {
    const auto key = RowOf(policy).key;
    if (key(a) != key(b)) return key(a) < key(b);
  }
  return a.ready_order < b.ready_order;
}

}  // namespace ebb::scheduler
