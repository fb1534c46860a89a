#include "runtime/needs.h"

#include <algorithm>

#include "runtime/batch_search.h"

namespace ebb::runtime {

AdmissionJob NeedsOf(JobId id, const PreparedJob& job, const DeviceSpec& device) {
  AdmissionJob needs{.id = id, .cap = job.spec.memory_max};
  const Bytes kept = job.StagingOnHost() + job.ResultBytes(device);
  for (const auto& plan : job.ladder) {
    const Bytes on_host = plan->placement.host_bytes();
    needs.levels.push_back(
        {.name = plan->level,
         .region = plan->placement.device_bytes() + job.StagingInPool(),
         .lane = plan->Peak(),
         .host = kept + (device.computes && on_host > Bytes(0) ? job.resident.bytes : on_host),
         .copied = plan->bus_bytes,
         .exposed_us = plan->exposed_us,
         .at_least = !job.IsPlanned()});
  }
  return needs;
}

bool BatchIsFree(const JobSpec& spec) {
  return spec.model.onnx != nullptr || !spec.model.zoo.empty();
}

const AdmissionJob* BatchNeeds::Of(int64_t batch) {
  const auto [it, is_new] = known_.try_emplace(batch);
  Known& known = it->second;
  if (is_new) {
    JobSpec tried = spec_;
    tried.batch_size = batch;
    tried.ladder.micro_batches = 1;
    tried.train = {};  // the sizes do not depend on the data
    if (tried.val) tried.val = DataSource{};
    auto prepared = Prepare(std::move(tried), device_,
                            {.quantum = quantum_, .memory = memory_, .purpose = Purpose::kSizes});
    if (prepared.ok()) {
      known.needs = NeedsOf(JobId(), **prepared, device_.spec());
      known.prepared = *std::move(prepared);
    }
  }
  return known.needs ? &*known.needs : nullptr;
}

const AdmissionJob* BatchNeeds::Deeper(int64_t batch) {
  Known& known = known_.at(batch);
  PreparedJob& job = *known.prepared;
  if (job.depth == LadderDepth::kRecomputed) return nullptr;
  const LadderDepth next =
      job.depth == LadderDepth::kResident ? LadderDepth::kStreamed : LadderDepth::kRecomputed;
  const absl::Status made =
      Deepen(job.Base(), next, device_, {.quantum = quantum_, .memory = memory_}, &job.ladder);
  job.depth = made.ok() ? next : LadderDepth::kRecomputed;
  known.needs = NeedsOf(JobId(), job, device_.spec());
  return &*known.needs;
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
    AdmissionState beside = others;
    const auto fits = [&](const AdmissionJob& job) {
      beside.running.resize(others.running.size());
      beside.running.insert(beside.running.end(), static_cast<size_t>(copies - 1), job);
      return Ask(beside, job).kind == Verdict::Kind::kFitsNow;
    };
    const AdmissionJob* job = Of(batch);
    if (job == nullptr) return {};
    bool fit = fits(*job);
    while (!fit) {
      const AdmissionJob* deeper = Deeper(batch);
      if (deeper == nullptr) break;
      job = deeper;
      fit = fits(*job);
    }
    std::optional<Bytes> bytes;
    for (const LevelNeed& need : job->levels) {
      const Bytes region = AlignUp(need.region, state.granule);
      const Bytes lane = AlignUp(need.lane, state.granule);
      Bytes takes = regions + region * copies + std::max(AlignUp(lanes, state.granule), lane);
      if (job->cap > Bytes(0)) takes = std::max(takes, state.pool + region + lane - job->cap);
      bytes = std::min(bytes.value_or(takes), takes);
    }
    return {fit, bytes};
  });
}

}  // namespace ebb::runtime
