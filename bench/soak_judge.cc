#include "bench/soak_judge.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "scheduler/scheduler.h"

namespace ebb::bench {

using runtime::JobInfo;
using runtime::JobState;

std::string JudgeEnd(const JobInfo& info, const ExpectedEnd& expected) {
  const std::string end =
      absl::StrCat("job j-", info.id.value(), " (", info.name, ") ended ",
                   runtime::Name(info.state), " after ", info.step, " steps: ", info.message);
  if (expected.cancelled) {
    return info.state == JobState::kCancelled ? "" : absl::StrCat(end, "; it was cancelled");
  }
  if (expected.failed) {
    const bool failed =
        info.state == JobState::kFailed && info.reason == runtime::EndReason::kDevice;
    return failed ? "" : absl::StrCat(end, "; a launch of it failed");
  }
  if (info.state == JobState::kSucceeded && info.step == expected.steps) return "";
  return absl::StrCat(end, "; it should have succeeded after ", expected.steps);
}

std::string JudgeNewEnd(const JobInfo& before, int64_t stop, const JobInfo& after) {
  // Staged, being launched and in flight.
  constexpr int64_t kAhead = 8;
  const int64_t end = after.total_steps;
  if (end == stop || (end > stop && end <= before.step + kAhead)) return "";
  return absl::StrCat("job j-", after.id.value(), " (", after.name, "): at step ", before.step,
                      " told to stop after ", stop, " steps, it will after ", end);
}

std::string JudgeLedger(const runtime::MemoryReport& report) {
  Bytes sum, in_lanes, of_jobs;
  for (const auto& [name, bytes] : report.classes) {
    if (bytes < Bytes(0)) return absl::StrCat(name, " is negative: ", bytes.count());
    sum += bytes;
  }
  if (sum != report.pool) {
    return absl::StrCat("the classes sum to ", sum.count(), " bytes of ", report.pool.count());
  }
  for (const runtime::LaneReport& lane : report.lanes) {
    const Bytes held = lane.bottom.held + lane.top.held;
    if (held + lane.waiting + lane.free != lane.size) {
      return absl::StrCat("lane ", lane.id.value(), ": held ", held.count(), ", waiting ",
                          lane.waiting.count(), " and free ", lane.free.count(), " are not its ",
                          lane.size.count(), " bytes");
    }
    for (const runtime::StackReport* stack : {&lane.bottom, &lane.top}) {
      Bytes blocks;
      for (const runtime::BlockReport& block : stack->blocks) blocks += block.bytes;
      if (blocks == stack->held) continue;
      return absl::StrCat("lane ", lane.id.value(), ": blocks of ", blocks.count(),
                          " bytes in a stack of ", stack->held.count());
    }
    in_lanes += held;
  }
  for (const runtime::JobMemoryReport& job : report.jobs) of_jobs += job.held;
  if (in_lanes == of_jobs) return "";
  return absl::StrCat("jobs hold ", of_jobs.count(), " bytes of lanes, lanes hold ",
                      in_lanes.count());
}

std::string JudgeBaseline(const runtime::MemoryReport& baseline,
                          const runtime::MemoryReport& report) {
  for (const auto& [now, before, where] :
       {std::tie(report.classes, baseline.classes, "of the pool"),
        std::tie(report.host, baseline.host, "of the host")}) {
    for (const auto& [name, bytes] : now) {
      const auto it = before.find(name);
      const Bytes was = it == before.end() ? Bytes(0) : it->second;
      if (bytes == was) continue;
      return absl::StrCat(name, " ", where, ": ", bytes.count(), " bytes after all jobs, ",
                          was.count(), " before");
    }
  }
  if (report.jobs.empty() && report.lanes.empty()) return "";
  return absl::StrCat(report.jobs.size(), " jobs and ", report.lanes.size(),
                      " lanes are left after all jobs");
}

std::string JudgeRest(const std::vector<JobInfo>& jobs) {
  const bool any_paused = std::any_of(
      jobs.begin(), jobs.end(), [](const JobInfo& job) { return job.state == JobState::kPaused; });
  for (const JobInfo& job : jobs) {
    const bool waits_for_paused = job.state == JobState::kQueued && any_paused;
    if (runtime::IsFinal(job.state) || job.state == JobState::kPaused || waits_for_paused) continue;
    return absl::StrCat("nothing moves, but job j-", job.id.value(), " (", job.name, ") is ",
                        runtime::Name(job.state), " at step ", job.step, " of ", job.total_steps,
                        ": ", job.why);
  }
  return "";
}

std::string JudgeWait(int64_t most_overtaken, int64_t jobs) {
  const int64_t bound = scheduler::kAgeAfter + jobs - 1;
  if (most_overtaken <= bound) return "";
  return absl::StrCat("a job saw ", most_overtaken,
                      " steps of others start before its own; the bound is ", bound);
}

}  // namespace ebb::bench
