#include "scheduler/policies.h"

#include <iterator>
#include <utility>

namespace ebb::scheduler {
namespace {

struct Row {
  Policy policy;
  const char* name;
  double (*key)(const Candidate& candidate);  // the least goes first
  // By how much a key may exceed that of a job that it keeps from starting; null: by any.
  double (*slack)(const Candidate& candidate);
};

double Attained(const Candidate& c) { return c.attained + c.pending; }
double NoSlack(const Candidate&) { return 0; }

constexpr Row kTable[] = {
    {Policy::kFair, "fair", Attained, nullptr},
    {Policy::kFifo, "fifo", [](const Candidate&) { return 0.0; }, nullptr},
    {Policy::kPriority, "priority", [](const Candidate& c) { return -double(c.params.priority); },
     NoSlack},
    {Policy::kShortest, "shortest", [](const Candidate& c) { return c.step_duration; }, NoSlack},
    {Policy::kEven, "even", Attained,
     [](const Candidate& c) { return c.step_duration / c.params.weight; }},
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

bool MayHoldBack(Policy policy) { return RowOf(policy).slack != nullptr; }

bool HoldsBack(Policy policy, const Candidate& job, const Candidate& other) {
  const Row& row = RowOf(policy);
  if (row.slack == nullptr || Aged(job)) return false;
  return row.key(other) + row.slack(job) < row.key(job);
}

}  // namespace ebb::scheduler
