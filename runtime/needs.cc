#include "runtime/needs.h"

#include <algorithm>

#include "runtime/batch_search.h"

namespace ebb::runtime {

AdmissionJob NeedsOf(JobId id, const PreparedJob& job) {
  return {.id = id,
          .levels = {{.name = "resident",
                      .region = job.resident.bytes + job.StagingInPool(),
                      .lane = job.Peak(),
                      .host = job.StagingOnHost(),
                      .at_least = !job.IsPlanned()}},
          .cap = job.spec.memory_max};
}

bool BatchIsFree(const JobSpec& spec) {
  return spec.model.onnx != nullptr || !spec.model.zoo.empty();
}

int64_t LargestBatchBeside(const JobSpec& spec, const AdmissionState& state,
                           const device::Device& device, Bytes quantum, int64_t most) {
  if (!BatchIsFree(spec)) return 0;
  AdmissionState others = state;  // all of them at once, whoever came first
  others.running.insert(others.running.end(), state.waiting.begin(), state.waiting.end());
  others.waiting.clear();
  Bytes regions, lanes;
  for (const AdmissionJob& job : others.running) {
    regions += AlignUp(job.levels[0].region, state.granule);
    lanes = std::max(lanes, job.levels[0].lane);
  }
  const Bytes cap = spec.memory_max;
  const Bytes memory = cap > Bytes(0) ? std::min(cap, state.pool) : state.pool;
  return LargestBatch(most, state.pool, [&](int64_t batch) -> BatchTrial {
    JobSpec tried = spec;
    tried.batch_size = batch;
    tried.train = {};  // the sizes do not depend on the data
    if (tried.val) tried.val = DataSource{};
    const auto prepared =
        Prepare(std::move(tried), device,
                {.quantum = quantum, .memory = memory, .purpose = Purpose::kSizes});
    if (!prepared.ok()) return {};
    const AdmissionJob job = NeedsOf(JobId(), **prepared);
    const Bytes region = AlignUp(job.levels[0].region, state.granule);
    const auto with_lane = [&](Bytes lane) { return region + AlignUp(lane, state.granule); };
    Bytes bytes = regions + with_lane(std::max(lanes, job.levels[0].lane));
    if (cap > Bytes(0)) bytes = std::max(bytes, state.pool + with_lane(job.levels[0].lane) - cap);
    return {Ask(others, job).kind == Verdict::Kind::kFitsNow, bytes};
  });
}

}  // namespace ebb::runtime
