#include "runtime/needs.h"

#include <algorithm>

#include "runtime/batch_search.h"

namespace ebb::runtime {

AdmissionJob NeedsOf(JobId id, const PreparedJob& job, const DeviceSpec& device) {
  return {.id = id,
          .levels = {{.name = "resident",
                      .region = job.resident.bytes + job.StagingInPool(),
                      .lane = job.Peak(),
                      .host = job.StagingOnHost() + job.ResultBytes(device),
                      .at_least = !job.IsPlanned()}},
          .cap = job.spec.memory_max};
}

bool BatchIsFree(const JobSpec& spec) {
  return spec.model.onnx != nullptr || !spec.model.zoo.empty();
}

const AdmissionJob* BatchNeeds::Of(int64_t batch) {
  const auto [it, is_new] = known_.try_emplace(batch);
  if (is_new) {
    JobSpec tried = spec_;
    tried.batch_size = batch;
    tried.train = {};  // the sizes do not depend on the data
    if (tried.val) tried.val = DataSource{};
    const auto prepared =
        Prepare(std::move(tried), device_,
                {.quantum = quantum_, .memory = memory_, .purpose = Purpose::kSizes});
    if (prepared.ok()) it->second = NeedsOf(JobId(), **prepared, device_.spec());
  }
  return it->second ? &*it->second : nullptr;
}

int64_t BatchNeeds::Largest(const AdmissionState& state, int64_t most, int copies) {
  if (!BatchIsFree(spec_)) return 0;
  AdmissionState others = state;  // all of them at once, whoever came first
  others.running.insert(others.running.end(), state.waiting.begin(), state.waiting.end());
  others.waiting.clear();
  Bytes regions, lanes;
  for (const AdmissionJob& job : others.running) {
    regions += AlignUp(job.levels[0].region, state.granule);
    lanes = std::max(lanes, job.levels[0].lane);
  }
  return LargestBatch(most, state.pool, [&](int64_t batch) -> BatchTrial {
    const AdmissionJob* job = Of(batch);
    if (job == nullptr) return {};
    const Bytes region = AlignUp(job->levels[0].region, state.granule);
    const Bytes lane = AlignUp(job->levels[0].lane, state.granule);
    Bytes bytes = regions + region * copies + std::max(AlignUp(lanes, state.granule), lane);
    if (job->cap > Bytes(0)) bytes = std::max(bytes, state.pool + region + lane - job->cap);
    AdmissionState beside = others;
    beside.running.insert(beside.running.end(), static_cast<size_t>(copies - 1), *job);
    return {Ask(std::move(beside), *job).kind == Verdict::Kind::kFitsNow, bytes};
  });
}

}  // namespace ebb::runtime
