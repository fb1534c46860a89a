#include "runtime/micro_batch_choice.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "runtime/needs.h"

namespace ebb::runtime {
namespace {

// A longer step takes longer to plan.
constexpr int kMostParts = 64;
// More parts are tried while they lower the step's bytes at least to this part.
constexpr double kPays = 0.95;

struct Trial {
  Verdict verdict;
  Bytes training, evaluation;  // live bytes of a step; their least where it is not planned
  bool Fits() const { return verdict.kind != Verdict::Kind::kNever; }
};

// Makes levels of its ladder until it fits alone, or all.
absl::StatusOr<Trial> Judge(PreparedJob* job, const AdmissionState& alone,
                            const device::Device& device, Bytes quantum) {
  EBB_RETURN_IF_ERROR(DeepenUntil(
      job, device, {.quantum = quantum, .memory = alone.pool},
      [&](const AdmissionJob& needs) { return Ask(alone, needs).kind != Verdict::Kind::kNever; }));
  const StepPrograms& resident = job->ladder[0]->programs;
  Trial trial{.verdict = Ask(alone, NeedsOf(JobId(), *job, device.spec())),
              .training = resident[0]->live_peak};
  if (resident[1] != nullptr) trial.evaluation = resident[1]->live_peak;
  return trial;
}

absl::StatusOr<Trial> Try(JobSpec spec, int parts, const AdmissionState& alone,
                          const device::Device& device, Bytes quantum) {
  spec.ladder.micro_batches = parts;
  spec.train = {};  // the sizes do not depend on the data
  if (spec.val) spec.val = DataSource{};
  EBB_ASSIGN_OR_RETURN(
      const std::unique_ptr<PreparedJob> job,
      Prepare(std::move(spec), device,
              {.quantum = quantum, .memory = alone.pool, .purpose = Purpose::kSizes}));
  return Judge(job.get(), alone, device, quantum);
}

std::string InParts(int parts) { return absl::StrCat("in ", parts, " micro-batches"); }

// Sets `choice->why_not` where it does not fit either; true if more parts may.
bool GoesOn(const Trial& trial, int parts, Bytes before, MicroBatchChoice* choice) {
  choice->why_not = absl::StrCat(
      "nor ", InParts(parts), ": needs ", trial.verdict.at_least ? "at least " : "",
      FormatBytes(trial.verdict.needs), trial.verdict.at_least ? " without recompute" : "");
  if (trial.evaluation >= trial.training) {
    absl::StrAppend(&choice->why_not, ", since evaluation takes the whole batch at once");
    return false;
  }
  return trial.training / before <= kPays;
}

// The least number of parts with which it fits, of a job that does not as a whole.
MicroBatchChoice Choose(const JobSpec& spec, Bytes whole, const AdmissionState& alone,
                        const device::Device& device, Bytes quantum) {
  MicroBatchChoice choice;
  Bytes before = whole;
  for (int parts = 2; parts <= std::min<int64_t>(spec.batch_size, kMostParts); parts *= 2) {
    if (spec.batch_size % parts != 0) {
      if (choice.why_not.empty()) choice.why_not = "micro-batches need an even batch_size";
      break;
    }
    const absl::StatusOr<Trial> trial = Try(spec, parts, alone, device, quantum);
    if (!trial.ok()) {
      absl::string_view why = trial.status().message();
      absl::ConsumePrefix(&why, absl::StrCat(kMicroBatchesField, ": "));
      absl::StrAppend(&choice.why_not, choice.why_not.empty() ? "" : "; ", "not ", InParts(parts),
                      ": ", why);
      break;
    }
    choice.separable = true;
    if (trial->Fits()) {
      choice.why_not.clear();
      choice.parts = parts;
      break;
    }
    if (trial->verdict.limit == Verdict::Limit::kHost) break;
    if (!GoesOn(*trial, parts, before, &choice)) break;
    before = trial->training;
  }
  return choice;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedJob>> InMicroBatches(std::unique_ptr<PreparedJob> job,
                                                            const AdmissionState& alone,
                                                            const device::Device& device,
                                                            const PrepareOptions& options) {
  if (job->spec.ladder.micro_batches != 0 || !BatchIsFree(job->spec)) return job;
  EBB_ASSIGN_OR_RETURN(const Trial whole, Judge(job.get(), alone, device, options.quantum));
  if (whole.Fits() || whole.verdict.limit == Verdict::Limit::kHost) return job;
  job->micro_batches = Choose(job->spec, whole.training, alone, device, options.quantum);
  if (job->micro_batches.parts == 1) return job;
  JobSpec spec = std::move(job->spec);
  spec.ladder.micro_batches = job->micro_batches.parts;
  job.reset();  // its weights are drawn again
  return Prepare(std::move(spec), device, options);
}

}  // namespace ebb::runtime
