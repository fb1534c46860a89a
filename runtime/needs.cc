#include "runtime/needs.h"

#include <algorithm>

#include "base/status.h"
#include "runtime/batch_search.h"

namespace ebb::runtime {

AdmissionJob NeedsOf(JobId id, const PreparedJob& job, const DeviceSpec& device) {
  AdmissionJob needs{.id = id, .cap = job.spec.memory_max};
  const Bytes kept = job.HostBytes(device);
  for (const auto& plan : job.ladder) {
    const Bytes on_host = plan->placement.host_bytes();
    needs.levels.push_back(
        {.name = plan->level,
         .region = plan->placement.device_bytes() + job.StagingInPool(),
         .lane = plan->Peak(),
         .host = kept + (device.computes && on_host > Bytes(0) ? job.resident.bytes : on_host),
         .copied = plan->bus_bytes,
         .exposed_us = plan->exposed_us,
         .at_least = !plan->IsPlanned()});
  }
  return needs;
}

absl::Status DeepenUntil(PreparedJob* job, const device::Device& device, const StepOptions& options,
                         absl::FunctionRef<bool(const AdmissionJob& needs)> enough) {
  for (const LadderDepth depth : {LadderDepth::kStreamed, LadderDepth::kRecomputed}) {
    if (job->depth >= depth) continue;
    if (enough(NeedsOf(JobId(), *job, device.spec()))) break;
    EBB_RETURN_IF_ERROR(CheckWanted(job->spec));
    EBB_RETURN_IF_ERROR(Deepen(job->Base(), depth, device, options, &job->ladder));
    job->depth = depth;
  }
  return absl::OkStatus();
}

bool BatchIsFree(const JobSpec& spec) {
  return spec.model.onnx != nullptr || !spec.model.zoo.empty();
}

PreparedJob* BatchNeeds::Of(int64_t batch) {
  const auto [it, is_new] = known_.try_emplace(batch);
  if (is_new) {
    JobSpec tried = spec_;
    tried.batch_size = batch;
    tried.ladder.micro_batches = 1;
    tried.train = {};  // the sizes do not depend on the data
    if (tried.val) tried.val = DataSource{};
    auto prepared = Prepare(std::move(tried), device_,
                            {.quantum = quantum_, .memory = memory_, .purpose = Purpose::kSizes});
    if (prepared.ok()) it->second = *std::move(prepared);
  }
  return it->second.get();
}

AdmissionJob BatchNeeds::Deepened(PreparedJob& job,
                                  absl::FunctionRef<bool(const AdmissionJob&)> fits) {
  // State on the host does not make a step smaller that is too large by itself.
  const bool hopeless = !job.IsPlanned() && !job.spec.ladder.recompute;
  const absl::Status made =
      hopeless ? absl::OkStatus()
               : DeepenUntil(&job, device_, {.quantum = quantum_, .memory = memory_}, fits);
  if (!made.ok()) job.depth = LadderDepth::kRecomputed;  // what there is has to do
  return NeedsOf(JobId(), job, device_.spec());
}

std::vector<LevelNeed> BatchNeeds::Chosen(const AdmissionState& alone, int64_t batch, int copies) {
  PreparedJob* const job = Of(batch);
  if (job == nullptr) return {};
  const auto choose = [&](const AdmissionJob& needs) {
    return CheapestLevels(alone, std::vector<const AdmissionJob*>(copies, &needs));
  };
  const AdmissionJob needs =
      Deepened(*job, [&](const AdmissionJob& tried) { return choose(tried).has_value(); });
  std::vector<LevelNeed> chosen;
  for (const int level : choose(needs).value_or(std::vector<int>())) {
    chosen.push_back(needs.levels[static_cast<size_t>(level)]);
  }
  return chosen;
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
    PreparedJob* const prepared = Of(batch);
    if (prepared == nullptr) return {};
    AdmissionState beside = others;
    const auto fits = [&](const AdmissionJob& job) {
      beside.running.resize(others.running.size());
      beside.running.insert(beside.running.end(), static_cast<size_t>(copies - 1), job);
      return Ask(beside, job).kind == Verdict::Kind::kFitsNow;
    };
    const AdmissionJob job = Deepened(*prepared, fits);
    std::optional<Bytes> bytes;
    for (const LevelNeed& need : job.levels) {
      const Bytes region = AlignUp(need.region, state.granule);
      const Bytes lane = AlignUp(need.lane, state.granule);
      Bytes takes = regions + region * copies + std::max(AlignUp(lanes, state.granule), lane);
      if (job.cap > Bytes(0)) takes = std::max(takes, state.pool + region + lane - job.cap);
      bytes = std::min(bytes.value_or(takes), takes);
    }
    return {fits(job), bytes};
  });
}

}  // namespace ebb::runtime
