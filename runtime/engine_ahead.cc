// The next step's batch crosses the bus while the step before it runs.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "runtime/engine_loop.h"

namespace ebb::runtime {

// First come, first served, of what nobody needs: for a fit, nor for two steps beside each other.
// Where they share a lane too small for that, a batch crosses behind the other job's step.
void EngineLoop::GrantAhead(const std::vector<ActiveJob*>& jobs) {
  const Bytes granule = pool_->granule();
  Bytes regions, highest, second;
  for (ActiveJob* job : jobs) {
    job->ahead.granted = false;
    regions += AlignUp(job->RegionBytes(), granule);
    const Bytes peak = AlignUp(job->prepared->Peak(), granule);
    second = std::max(second, std::min(highest, peak));
    highest = std::max(highest, peak);
  }
  Bytes left = pool_->budget() - regions - highest - second;
  for (ActiveJob* job : jobs) {
    const PreparedJob& prepared = *job->prepared;
    const Bytes without = AlignUp(job->RegionBytes(), granule);
    const Bytes with = AlignUp(job->RegionBytes() + prepared.AheadBytes(), granule);
    const Bytes cap = prepared.spec.memory_max;
    const bool capped = cap > Bytes(0) && with + AlignUp(prepared.Peak(), granule) > cap;
    if (prepared.AheadBytes() == Bytes(0) || with - without > left || capped) continue;
    job->ahead.granted = true;
    left -= with - without;
  }
}

void EngineLoop::FetchAhead(ActiveJob& job) {
  if (!job.ahead.granted || job.ahead.taken || lanes_closed_ || job.staged.empty()) return;
  StepRun& next = *job.staged.front();
  if (!next.staged) return;
  job.ahead.taken = next.ahead = true;
  CopyBatch(ahead_stream_, job, next, [&](ValueId, Bytes offset) {
    return BatchWay{job.Ahead(offset), job.Staged(next.slot, offset)};
  });
  const device::EventId landed = device_->Record(ahead_stream_);
  job.ahead.landed = landed;
  ++job.outstanding;
  const auto done = [this, id = job.id, landed](const absl::Status& status) {
    ActiveJob* job = Settle(id, &ActiveJob::outstanding);
    if (job == nullptr) return;
    // The step may have taken it, and the next batch be on its way, before this is known.
    if (job->ahead.landed == landed) job->ahead.landed = device::EventId();
    if (status.ok()) return;
    EndJob(id, JobState::kFailed, EndReason::kDevice, std::string(status.message()));
  };
  ahead_ops_.push_back({landed, done});
}

// From where it is: in the region, or still in its slot.
void EngineLoop::EnterBatch(device::StreamId stream, ActiveJob& job, const StepRun& run,
                            const device::Bindings& bindings) {
  if (run.ahead && job.ahead.landed.valid()) device_->Wait(stream, job.ahead.landed);
  CopyBatch(stream, job, run, [&](ValueId value, Bytes offset) {
    return BatchWay{static_cast<char*>(bindings.values[value.index()]),
                    run.ahead ? job.Ahead(offset) : job.Staged(run.slot, offset)};
  });
}

// `way` says to where and from where each field goes.
void EngineLoop::CopyBatch(device::StreamId stream, const ActiveJob& job, const StepRun& run,
                           absl::FunctionRef<BatchWay(ValueId value, Bytes offset)> way) {
  const int program = static_cast<int>(run.item.kind);
  const StepProgram& step = *job.prepared->programs()[program];
  const auto& offsets = job.prepared->slot_offsets[program];
  const auto copy = [&](ValueId value, Bytes offset, Bytes bytes) {
    if (!step.PlaceOf(value)) return;  // nothing reads it
    const auto [to, from] = way(value, offset);
    device_->Copy(stream, to, from, bytes);
  };
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    copy(step.inputs[i], offsets[i], step.graph.value(step.inputs[i]).type.bytes());
  }
  if (step.valid.valid()) copy(step.valid, offsets.back(), Bytes(sizeof(int64_t)));
}

// Regions change: what has been copied ahead is still in its slot.
void EngineLoop::ForgetAhead(ActiveJob& job) {
  EBB_CHECK(!job.ahead.landed.valid() && job.enqueuing == nullptr);
  job.ahead.taken = false;
  for (const auto& run : job.staged) run->ahead = false;
}

std::string EngineLoop::AheadText(const ActiveJob& job) const {
  if (job.prepared->stages_in_pool) return "";
  if (job.ahead.granted) {
    return absl::StrCat("copied while the step before runs, into ",
                        FormatBytes(job.prepared->AheadBytes()), " of its region");
  }
  return job.prepared->spec.ladder.prefetch
             ? absl::StrCat("copied when its step starts: ", FormatBytes(job.prepared->slot_bytes),
                            " more for its region are not free")
             : "copied when its step starts (resources.ladder.prefetch)";
}

}  // namespace ebb::runtime
