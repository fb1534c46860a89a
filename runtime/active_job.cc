#include "runtime/active_job.h"

#include "base/check.h"

namespace ebb::runtime {

ActiveJob::ActiveJob(std::unique_ptr<PreparedJob> p)
    : prepared(std::move(p)),
      sequence(prepared->steps),
      schedule(prepared->spec.schedule),
      scheduled_steps(prepared->steps.total_steps),
      judge(prepared->spec),
      device_time_limit(prepared->spec.stop.device_time) {
  for (size_t program = 0; program < caches.size(); ++program) {
    caches[program]->order.reserve(prepared->sources[program].rows.size());
  }
  if (prepared->feed != nullptr) {
    caches[0]->order.reserve(static_cast<size_t>(prepared->feed->rows()));
  }
  if (const auto& evaluation = prepared->programs()[1]; evaluation != nullptr) {
    const auto rows = static_cast<int64_t>(prepared->sources[1].rows.size());
    eval_sums.Reserve(rows * ScoresPerRow(*evaluation));
  }
}

char* ActiveJob::Resident(absl::string_view name, int program) const {
  const ResidentLayout& layout = prepared->resident;
  auto it = layout.own[program].find(name);
  if (it == layout.own[program].end()) {
    it = layout.shared.find(name);
    EBB_CHECK(it != layout.shared.end());
  }
  return AtImage(it->second);
}

char* ActiveJob::AtImage(Bytes offset) const {
  const Placement::Spot spot = prepared->plan().placement.At(offset);
  if (spot.on_host) return prepared->host_image->base() + spot.offset.count();
  return region->base() + (StagingBytes() + spot.offset).count();
}

void ActiveJob::Adopt(size_t level) {
  EBB_CHECK(level < prepared->ladder.size());
  prepared->level = level;
  bound = {};
}

char* ActiveJob::Staged(int slot, Bytes offset) const {
  const Bytes at = prepared->slot_bytes * slot + offset;
  return (prepared->stages_in_pool ? region->base() : prepared->host_slots->base()) + at.count();
}

char* ActiveJob::Ahead(Bytes offset) const {
  EBB_CHECK(ahead.granted);
  return region->base() + (StagingBytes() + ResidentBytes() + offset).count();
}

const device::Bindings& ActiveJob::Bind(int program, memory::End end, char* base, Bytes size) {
  BoundTo& bound_to = bound[program][static_cast<int>(end)];
  if (bound_to.bindings != nullptr && bound_to.base == base && bound_to.size == size) {
    return *bound_to.bindings;
  }
  const StepProgram& step = *prepared->programs()[program];
  const auto at = [&](Bytes offset, Bytes bytes) {
    return end == memory::End::kBottom ? base + offset.count()
                                       : base + (size - offset - bytes).count();
  };
  auto bindings = std::make_unique<device::Bindings>();
  bindings->values.assign(step.graph.values.size(), nullptr);
  for (const graph::Value& value : step.graph.values) {
    void*& address = bindings->values[value.id.index()];
    if (const auto place = step.PlaceOf(value.id)) {
      address = at(place->offset, place->bytes);
    } else if (graph::IsResident(value.role)) {
      address = Resident(value.name, program);
    } else if (const ValueId alias = step.liveness.alias_of[value.id.index()]; alias.valid()) {
      const graph::Value& target = step.graph.value(alias);
      address = Resident(target.name, program);
    }
  }
  bindings->workspaces.assign(step.graph.nodes.size(), nullptr);
  for (size_t n = 0; n < step.graph.nodes.size(); ++n) {
    const int range = step.workspace_range[n];
    if (range >= 0) bindings->workspaces[n] = at(step.plan.offset[range], step.range_bytes[range]);
  }
  bound_to = {base, size, std::move(bindings)};
  return *bound_to.bindings;
}

void ActiveJob::BindAll(char* base, Bytes size) {
  for (size_t program = 0; program < prepared->programs().size(); ++program) {
    if (prepared->programs()[program] == nullptr) continue;
    for (const memory::End end : {memory::End::kBottom, memory::End::kTop}) {
      Bind(static_cast<int>(program), end, base, size);
    }
  }
}

std::vector<scheduler::StepProfile> ActiveJob::Profiles() const {
  std::vector<scheduler::StepProfile> profiles;
  for (const auto& step : prepared->programs()) {
    if (step) profiles.push_back(step->profile);
  }
  return profiles;
}

}  // namespace ebb::runtime
