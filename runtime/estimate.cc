#include "runtime/estimate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "runtime/batch_search.h"
#include "runtime/micro_batch_choice.h"
#include "runtime/needs.h"
#include "runtime/predict.h"

namespace ebb::runtime {
namespace {

constexpr int64_t kMostRows = 1 << 24;

AdmissionState WithoutJobs(const AdmissionState& state) {
  return {.pool = state.pool, .granule = state.granule, .host = state.host};
}

int64_t RowsOf(const DataSource& source) {
  if (source.data == nullptr) return kMostRows;
  const auto rows = static_cast<int64_t>(source.rows.size());
  return std::min(rows > 0 ? rows : source.data->rows(), kMostRows);
}

std::string Refusal(const PreparedJob& job, const Verdict& verdict, int64_t largest) {
  const MicroBatchChoice& micro = job.micro_batches;
  const std::string advice =
      largest > 0
          ? absl::StrCat(
                "largest batch_size that fits",
                micro.separable || PartsOf(job.spec) > 1 ? " without micro-batches: " : ": ",
                largest)
      : BatchIsFree(job.spec)
          ? "it does not fit at any batch_size"
          : "the serialised graph binds the batch: give one with a smaller batch";
  const MemoryPlan& plan = *job.ladder[static_cast<size_t>(verdict.level)];
  const auto& [training, evaluation] = plan.programs;
  const bool whole = PartsOf(job.spec) > 1 && evaluation != nullptr &&
                     evaluation->plan.peak >= training->plan.peak;
  return absl::StrCat(InWords(verdict, std::nullopt), " (",
                      FormatBytes(plan.placement.device_bytes()), " resident, ",
                      FormatBytes(job.StagingInPool()), " staging, ", FormatBytes(plan.Peak()),
                      " for a step of batch_size ", job.spec.batch_size,
                      whole ? ", since evaluation takes the whole batch at once" : "",
                      verdict.level > 0 ? absl::StrCat(", at level '", plan.level, "'") : "", "); ",
                      micro.why_not, micro.why_not.empty() ? "" : "; ", advice);
}

// Jobs have taken what they need of the host's memory since they were submitted.
std::optional<Bytes> HostLeft(const AdmissionState& state) {
  if (state.host == Bytes(0)) return std::nullopt;
  Bytes left = state.host - state.host_taken;
  for (const auto* jobs : {&state.running, &state.waiting}) {
    for (const AdmissionJob& job : *jobs) left -= job.levels[0].host;
  }
  return std::max(left, Bytes(0));
}

// How many equal jobs fit at one level.
int64_t Copies(const LevelNeed& level, const AdmissionState& alone) {
  const Bytes region = std::max(AlignUp(level.region, alone.granule), alone.granule);
  const Bytes room = alone.pool - AlignUp(level.lane, alone.granule);
  int64_t copies = std::max<int64_t>(0, room.count() / region.count());
  if (alone.host > Bytes(0) && level.host > Bytes(0)) {
    copies = std::min(copies, alone.host.count() / level.host.count());
  }
  return copies;
}

}  // namespace

AdmissionState EmptyPool(Bytes memory, Bytes granule) {
  return {.pool = granule * (memory.count() / granule.count()), .granule = granule};
}

absl::Status CheckFits(const PreparedJob& job, const AdmissionState& alone,
                       const device::Device& device, Bytes quantum) {
  const Verdict verdict = Ask(alone, NeedsOf(JobId(), job, device.spec()));
  if (verdict.kind != Verdict::Kind::kNever) return absl::OkStatus();
  BatchNeeds needs(job.spec, device, quantum, alone.pool);
  return absl::ResourceExhaustedError(
      Refusal(job, verdict, needs.Largest(alone, job.spec.batch_size - 1)));
}

absl::StatusOr<int64_t> AutoBatch(const JobSpec& spec, const AdmissionState& present,
                                  const device::Device& device, Bytes quantum) {
  if (!BatchIsFree(spec)) {
    return absl::InvalidArgumentError(
        "batch_size: auto: a serialised graph has its batch bound; give that number of rows");
  }
  if (PartsOf(spec) > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size: auto: finds the largest batch that fits without micro-batches; "
                     "give a number, or remove ",
                     kMicroBatchesField));
  }
  JobSpec unhurried = spec;  // a larger batch is not bought with time
  unhurried.ladder.recompute = false;
  // What is wrong with the job shows at any batch.
  JobSpec one = unhurried;
  one.batch_size = 1;
  EBB_RETURN_IF_ERROR(
      Annotate(Prepare(std::move(one), device,
                       {.quantum = quantum, .memory = present.pool, .purpose = Purpose::kSizes})
                   .status(),
               "batch_size: auto"));
  BatchNeeds needs(unhurried, device, quantum, present.pool);
  const int64_t rows = RowsOf(spec.train) / std::max(1, spec.accumulate);
  int64_t batch = needs.Largest(present, rows);
  if (batch == 0) batch = needs.Largest(WithoutJobs(present), rows);
  return std::max<int64_t>(1, RoundedBatch(batch));
}

absl::StatusOr<EstimateReport> EstimateJob(JobSpec spec, const AdmissionState& present,
                                           const device::Device& device,
                                           const EstimateOptions& options) {
  if (spec.batch_auto) {
    EBB_ASSIGN_OR_RETURN(spec.batch_size, AutoBatch(spec, present, device, options.quantum));
  }
  const AdmissionState alone = WithoutJobs(present);
  const PrepareOptions prepare{
      .quantum = options.quantum, .memory = present.pool, .purpose = Purpose::kSizes};
  EBB_ASSIGN_OR_RETURN(std::unique_ptr<PreparedJob> job, Prepare(spec, device, prepare));
  EBB_ASSIGN_OR_RETURN(job, InMicroBatches(std::move(job), alone, device, prepare));
  EBB_RETURN_IF_ERROR(DeepenUntil(job.get(), device,
                                  {.quantum = options.quantum, .memory = present.pool},
                                  [&](const AdmissionJob& needs) {
                                    return Ask(present, needs).kind == Verdict::Kind::kFitsNow;
                                  }));
  const AdmissionJob own = NeedsOf(JobId(), *job, device.spec());
  const Verdict verdict = Ask(present, own);
  job->level = static_cast<size_t>(verdict.level);
  const LevelNeed& level = own.levels[job->level];
  const LevelNeed& by_itself = own.levels[static_cast<size_t>(Ask(alone, own).level)];
  EstimateReport report{.device = device.spec(),
                        .verdict = verdict,
                        .batch_size = spec.batch_size,
                        .pool = present.pool,
                        .resident = job->DeviceBytes(),
                        .staging = job->StagingInPool(),
                        .step_peak = job->Peak(),
                        .live_peak = job->programs()[0]->live_peak,
                        .copies = Copies(by_itself, alone)};
  const bool nobody_else = present.running.empty() && present.waiting.empty();
  if (nobody_else && job->CopiesAheadAlone(present.pool, present.granule)) {
    report.staging += job->AheadBytes();
  }
  const Bytes region = AlignUp(by_itself.region, alone.granule);
  report.host = level.host;
  report.alone = region + AlignUp(by_itself.lane, alone.granule);
  report.two = report.alone + region;
  if (BatchIsFree(spec)) {
    BatchNeeds needs(spec, device, options.quantum, present.pool);
    report.largest_alone = needs.Largest(alone, kMostRows);
    report.largest_beside_equal = needs.Largest(alone, kMostRows, 2);
    report.largest_now = needs.Largest(present, kMostRows);
  }
  if (report.verdict.kind == Verdict::Kind::kNever) {
    report.text = Refusal(*job, report.verdict, report.largest_alone.value_or(0));
    return report;
  }
  report.step_time =
      PredictStep(*job, device.spec(), present.pool,
                  spec.max_in_flight > 0 ? spec.max_in_flight : options.max_in_flight);
  std::optional<absl::Time> now;
  if (device.spec().profile.empty()) now = absl::Now();
  report.text = absl::StrCat(InWords(report.verdict, now), ": it ", InWords(report.verdict.ledger));
  if (verdict.kind == Verdict::Kind::kAfter)
    absl::StrAppend(&report.text, InWords(present.waiting));
  if (PartsOf(job->spec) > 1) {
    absl::StrAppend(&report.text, "; in ", PartsOf(job->spec), " micro-batches");
  }
  if (job->level > 0) absl::StrAppend(&report.text, "; at level '", level.name, "'");
  if (const auto left = HostLeft(present); left && level.host > *left) {
    absl::StrAppend(&report.text, "; a submit is refused until ", FormatBytes(level.host),
                    " of the host's memory are free, now ", FormatBytes(*left), " are");
  }
  return report;
}

}  // namespace ebb::runtime
