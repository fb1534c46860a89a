// Who runs next: a pure state machine. Events come in (AddJob, Ready, Finished, ...), decisions
// come out (Next). No clock, thread, lock, device or log inside; the engine, the simulator and the
// tests drive the same code. Thread rule: one owner thread.
//
// The rule (docs/scheduling.md): at most two steps are in flight in a lane; the older one leads.
//   the leader's next sub-model: always granted
//   the follower's next sub-model s: granted iff U_F(s) + N_L <= A
//   when the leader's step ends the follower leads; the head of the waiting queue may start at the
//   free end under the same test
// U: extent during a sub-model; N: the most its step still needs from its next sub-model on; A:
// lane size.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/ids.h"
#include "base/units.h"
#include "memory/lane.h"

namespace ebb::scheduler {

using memory::End;
using memory::LaunchSeq;

// The memory profile of one kind of step (training, evaluation) of a job.
struct StepProfile {
  std::vector<Bytes> extent;      // U per sub-model
  std::vector<Bytes> held_after;  // H per sub-model; the last is 0
  Bytes Peak() const;
};

// How the waiting queue of a lane is ordered; equals go in the order in which they became ready.
// Where two steps do not fit beside each other, kPriority, kShortest and kEven also hold a job back
// that would keep another of the lane, which comes before it, from its next step.
enum class Policy {
  kFair,      // least service / weight first
  kFifo,      // first ready first
  kPriority,  // highest priority first
  kShortest,  // shortest last step first
  kEven,      // as kFair, and nobody gets ahead by more than a step of its own
};
absl::string_view Name(Policy policy);
std::optional<Policy> PolicyFromName(absl::string_view name);

// Ageing, in all policies: once this many steps of other jobs have been started in its lane while a
// job could have started, it goes before every job that has not aged, aged ones in the order of
// Ready(). So Overtaken() never exceeds kAgeAfter + (jobs of the lane, and those of others that it
// takes turns with) - 1.
constexpr int64_t kAgeAfter = 32;

struct JobParams {
  double weight = 1;      // kFair: share of service
  int priority = 0;       // kPriority: higher first
  int max_in_flight = 4;  // launched, unfinished sub-models (>= 1)
};

struct Decision {
  LaunchSeq seq;
  JobId job;
  LaneId lane;
  End end = End::kBottom;
  int profile = 0;
  int sub_model = 0;
  bool first = false;             // of its step
  bool last = false;              // of its step
  std::optional<LaunchSeq> wait;  // the launch must wait on the stream for this one's event
  // First launch of a step on another end or lane than the job's last one: the job's newest launch
  // not known to be complete, for which this one must wait on the stream as well (data, not
  // memory).
  std::optional<LaunchSeq> previous;
  // First launch of a step of a job that takes turns: the newest launches of those it takes turns
  // with, not known to be complete, for which its kernels must wait on the stream. What is copied
  // in for the step need not wait.
  std::vector<LaunchSeq> after;
};

enum class Standing {
  kIdle,       // no step is ready
  kWaiting,    // a step is ready and queues for an end of its lane
  kFollowing,  // the younger step in flight
  kLeading,    // the older step in flight
  kPaused,     // a step is ready, but its lane is closed
};

struct SchedulerRules;  // scheduler/rules.h: so that tests can break one

class Scheduler {
 public:
  explicit Scheduler(Policy policy);
  Scheduler(Policy policy, const SchedulerRules& rules);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  LaneId AddLane(Bytes size);
  // Changes a lane's size; it must be drained. A job whose peak no longer fits starts no step until
  // it is moved or the lane has grown again; it does not hold up the others.
  void ResizeLane(LaneId lane, Bytes size);
  // While closed, a lane starts no step; steps in flight go on. For re-cuts and shutdown.
  void CloseLane(LaneId lane);
  void OpenLane(LaneId lane);

  // `profiles[k]` is what Ready(job, k) starts. Every peak must fit the lane, and a profile must be
  // sound (extents cover what is held, nothing is held at the end): else InvalidArgument.
  // AlreadyExists if the job is here.
  absl::Status AddJob(JobId job, std::vector<StepProfile> profiles, JobParams params, LaneId lane);
  // Takes effect at the next decision. REQUIRES weight > 0 and max_in_flight >= 1.
  void UpdateJob(JobId job, JobParams params);
  // Moves a job that has no step in flight to another lane; a step that is ready queues up there
  // anew. FailedPrecondition while a step is in flight, InvalidArgument if a peak does not fit.
  absl::Status MoveJob(JobId job, LaneId lane);
  // Replaces the profiles of a job that has no step in flight: its steps now take other memory. It
  // keeps its lane, which it need not fit until it is moved. FailedPrecondition while a step is in
  // flight, InvalidArgument for profiles that AddJob would refuse.
  absl::Status SetProfiles(JobId job, std::vector<StepProfile> profiles);
  // Drops the rest of a step in flight and forgets the job. Its launches still have to finish.
  void RemoveJob(JobId job);

  // From now on a step of one starts only while no step of the other is in flight, and executes
  // after what the other has launched; of two that wait, the one that the policy prefers goes
  // first, whatever their lanes. REQUIRES a != b.
  void TakeTurns(JobId a, JobId b);
  void RunTogether(JobId a, JobId b);  // the default

  // The job's next step, of the given profile, may start: its batch is ready. At most one step a
  // job is ready or in flight at a time.
  void Ready(JobId job, int profile);
  // Takes a Ready() back if the step has not started; true if it did so.
  bool Unready(JobId job);
  // Drops the rest of the job's step in flight (nothing if there is none); the job stays.
  void DropStep(JobId job);

  // The next launch, or nothing until another event comes in. Once returned it is enqueued: the
  // memory it releases can be claimed by the next decision.
  std::optional<Decision> Next();
  // The launch's event is complete: `duration` is its execution time. In order for launches of one
  // end.
  void Finished(LaunchSeq seq, Micros duration);

  const memory::LaneState& lane(LaneId id) const;
  Standing StandingOf(JobId job) const;
  // Why the job does not run, in words without times: "needs 5.2 GiB at the free end; ...".
  std::string Why(JobId job) const;
  // With whom the job takes turns, if its step waits for that one's; the one in flight if there is
  // one.
  std::optional<JobId> WhoseTurn(JobId job) const;
  // Steps of other jobs, started in its lane or of those that it takes turns with, since this job
  // became ready, not counted while it
  // could not have started anyway (max_in_flight of its own launches in flight, or its lane too
  // small): bounded, see kAgeAfter. 0 when no step is ready.
  int64_t Overtaken(JobId job) const;
  int64_t MostOvertaken() const;  // the largest Overtaken() of any job so far
  void CheckInvariants() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebb::scheduler
