// Who runs next: a pure state machine. Events come in (AddJob, Ready, Finished, ...), decisions come out
// (Next). No clock, thread, lock, device or log inside; the engine, the simulator and the tests drive
// the same code. Thread rule: one owner thread.
//
// The rule (docs/scheduler.md): at most two steps are in flight in a lane; the older one leads.
//   the leader's next sub-model: always granted
//   the follower's next sub-model s: granted iff U_F(s) + N_L <= A
//   when the leader's step ends the follower leads; the head of the waiting queue may start at the free
//   end under the same test
// U: extent during a sub-model; N: the most its step still needs from its next sub-model on; A: lane size.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
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

enum class Policy { kFair, kFifo, kPriority, kShortest };

struct JobParams {
  double weight = 1;    // kFair: share of service
  int priority = 0;     // kPriority: higher first
  int max_in_flight = 4;  // launched, unfinished sub-models (>= 1)
};

struct Decision {
  LaunchSeq seq;
  JobId job;
  LaneId lane;
  End end = End::kBottom;
  int profile = 0;
  int sub_model = 0;
  bool first = false;  // of its step
  bool last = false;   // of its step
  std::optional<LaunchSeq> wait;  // the launch must wait on the stream for this one's event
};

enum class Standing { kIdle, kWaiting, kFollowing, kLeading, kPaused };

class Scheduler {
 public:
  explicit Scheduler(Policy policy);
  ~Scheduler();

  LaneId AddLane(Bytes size);
  // Changes a lane's size; it must be drained.
  void ResizeLane(LaneId lane, Bytes size);
  // While closed, a lane starts no step; steps in flight go on. For re-cuts and shutdown.
  void CloseLane(LaneId lane);
  void OpenLane(LaneId lane);

  // `profiles[k]` is what Ready(job, k) starts. Every peak must fit the lane (InvalidArgument).
  absl::Status AddJob(JobId job, std::vector<StepProfile> profiles, JobParams params, LaneId lane);
  void UpdateJob(JobId job, JobParams params);
  // Moves a job that has no step in flight to another lane.
  absl::Status MoveJob(JobId job, LaneId lane);
  // Drops the rest of a step in flight and forgets the job. Its launches still have to finish.
  void RemoveJob(JobId job);

  // The job's next step, of the given profile, may start: its batch is ready. At most one step a job is
  // ready or in flight at a time.
  void Ready(JobId job, int profile);
  // Takes a Ready() back if the step has not started; true if it did so.
  bool Unready(JobId job);
  // Drops the rest of the job's step in flight (nothing if there is none); the job stays.
  void DropStep(JobId job);

  // The next launch, or nothing until another event comes in. Once returned it is enqueued: the memory
  // it releases can be claimed by the next decision.
  std::optional<Decision> Next();
  // The launch's event is complete. In order for launches of one end.
  void Finished(LaunchSeq seq, Micros duration);

  const memory::LaneState& lane(LaneId id) const;
  Standing StandingOf(JobId job) const;
  // Why the job does not run, in words without times: "needs 5.2 GiB at the free end; ...".
  std::string Why(JobId job) const;
  // Steps of other jobs started in its lane since this job became ready: bounded, see docs.
  int64_t Overtaken(JobId job) const;
  void CheckInvariants() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebb::scheduler
