#include "runtime/micro_batch_choice.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "runtime/needs.h"

namespace ebb::runtime {
namespace {

// Planning takes quadratic time in the parts.
constexpr int kMostParts = 64;
// More parts are tried while they lower the step's bytes at least to this part.
constexpr double kPays = 0.95;

struct Trial {
  Verdict verdict;
  Bytes training, evaluation;  // live bytes of a step; their least where it is not planned
  bool Fits() const { return verdict.kind != Verdict::Kind::kNever; }
};

absl::StatusOr<Trial> Try(JobSpec spec, int parts, const AdmissionState& alone,
                          const device::Device& device, Bytes quantum) {
  spec.ladder.micro_batches = parts;
  spec.train = {};  // the sizes do not depend on the data
  if (spec.val) spec.val = DataSource{};
  EBB_ASSIGN_OR_RETURN(
      const std::unique_ptr<PreparedJob> job,
      Prepare(std::move(spec), device,
              {.quantum = quantum, .memory = alone.pool, .purpose = Purpose::kSizes}));
  const auto verdict = [&] { return Ask(alone, NeedsOf(JobId(), *job, device.spec())); };
  Trial trial{.verdict = verdict(), .training = job->programs()[0]->live_peak};
  if (job->programs()[1] != nullptr) trial.evaluation = job->programs()[1]->live_peak;
  for (const LadderDepth depth : {LadderDepth::kStreamed, LadderDepth::kRecomputed}) {
    if (trial.Fits()) break;
    EBB_RETURN_IF_ERROR(Deepen(job->Base(), depth, device,
                               {.quantum = quantum, .memory = alone.pool}, &job->ladder));
    trial.verdict = verdict();
  }
  return trial;
}

std::string InParts(int parts) { return absl::StrCat("in ", parts, " micro-batches"); }

}  // namespace

MicroBatchChoice ChooseMicroBatches(const JobSpec& spec, const AdmissionState& alone,
                                    const device::Device& device, Bytes quantum) {
  MicroBatchChoice choice;
  if (!BatchIsFree(spec)) return choice;
  std::optional<Bytes> before;
  for (int parts = 1; parts <= std::min<int64_t>(spec.batch_size, kMostParts); parts *= 2) {
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
    choice.separable = parts > 1;
    if (trial->Fits()) {
      choice.why_not.clear();
      choice.parts = parts;
      return choice;
    }
    if (trial->verdict.limit == Verdict::Limit::kHost) break;
    if (parts > 1) {
      choice.why_not = absl::StrCat("nor ", InParts(parts), ": needs ",
                                    trial->verdict.at_least ? "at least " : "",
                                    FormatBytes(trial->verdict.needs));
      if (trial->evaluation >= trial->training) {
        absl::StrAppend(&choice.why_not, ", since evaluation takes the whole batch at once");
        break;
      }
      if (before && trial->training / *before > kPays) break;
    }
    before = trial->training;
  }
  return choice;
}

absl::StatusOr<std::unique_ptr<PreparedJob>> InMicroBatches(std::unique_ptr<PreparedJob> job,
                                                            const AdmissionState& alone,
                                                            const device::Device& device,
                                                            const PrepareOptions& options) {
  if (job->spec.ladder.micro_batches != 0) return job;
  const Verdict whole = Ask(alone, NeedsOf(JobId(), *job, device.spec()));
  if (whole.kind != Verdict::Kind::kNever) return job;
  job->micro_batches = ChooseMicroBatches(job->spec, alone, device, options.quantum);
  if (job->micro_batches.parts == 1) return job;
  JobSpec spec = std::move(job->spec);
  spec.ladder.micro_batches = job->micro_batches.parts;
  job.reset();  // its weights are drawn again
  return Prepare(std::move(spec), device, options);
}

}  // namespace ebb::runtime
