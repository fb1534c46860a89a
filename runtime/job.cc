#include "runtime/job.h"

#include "absl/strings/str_cat.h"

namespace ebb::runtime {

absl::Status CheckWanted(const JobSpec& spec) {
  if (!spec.abandoned || !spec.abandoned()) return absl::OkStatus();
  return absl::CancelledError("who asked for the job has gone; its planning ends here");
}

const char* Name(JobState state) {
  switch (state) {
    case JobState::kPreparing:
      return "preparing";
    case JobState::kQueued:
      return "queued";
    case JobState::kRunning:
      return "running";
    case JobState::kPaused:
      return "paused";
    case JobState::kSucceeded:
      return "succeeded";
    case JobState::kFailed:
      return "failed";
    case JobState::kCancelled:
      return "cancelled";
  }
  return "?";
}

const char* Name(EndReason reason) {
  switch (reason) {
    case EndReason::kNone:
      return "";
    case EndReason::kCancelled:
      return "CANCELLED";
    case EndReason::kInvalid:
      return "INVALID";
    case EndReason::kUnsupported:
      return "UNSUPPORTED";
    case EndReason::kOom:
      return "OOM";
    case EndReason::kData:
      return "DATA";
    case EndReason::kNan:
      return "NAN";
    case EndReason::kDevice:
      return "DEVICE";
    case EndReason::kInternal:
      return "INTERNAL";
  }
  return "?";
}

absl::Status CheckMaxInFlight(int64_t value) {
  if (value >= 0 && value <= 64) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "max_in_flight is ", value,
      "; it must be within [1, 64] sub-models, or 0 for what ebbd --max_in_flight says"));
}

}  // namespace ebb::runtime
