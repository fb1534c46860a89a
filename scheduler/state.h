// The scheduler's own state, shared by the files that implement it. Internal.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/check.h"
#include "scheduler/policies.h"
#include "scheduler/rules.h"
#include "scheduler/scheduler.h"

namespace ebb::scheduler {

struct Profile {
  StepProfile step;
  std::vector<Bytes> need;  // N: the most of extent[s...]
};

struct Job {
  JobId id;
  std::vector<Profile> profiles;
  Bytes peak;  // over all profiles
  LaneId lane;
  Candidate queue;  // params, order and service

  bool ready = false;    // a step waits to start
  bool in_step = false;  // a step is in flight
  size_t profile = 0;    // of that step
  size_t next = 0;       // its next sub-model
  int64_t step = 0;      // counts steps started

  int in_flight = 0;                // launched, unfinished sub-models
  std::optional<LaunchSeq> newest;  // the newest of them
  LaneId last_lane;                 // where its newest launch went
  End last_end = End::kBottom;
  int64_t service_step = 0;  // the step that `service` belongs to
  double service = 0;        // microseconds

  absl::flat_hash_set<Job*> turns;  // those that it takes turns with

  void CountPending() {
    const auto parts = static_cast<double>(profiles[profile].step.extent.size());
    queue.pending = in_flight * queue.step_duration / parts / queue.params.weight;
  }
  bool HasRoom() const { return in_flight < queue.params.max_in_flight; }
  bool Active() const { return ready || in_step || in_flight > 0; }
  Bytes Extent() const { return profiles[profile].step.extent[next]; }
  Bytes HeldAfter() const { return profiles[profile].step.held_after[next]; }
  Bytes Need() const { return profiles[profile].need[next]; }
};

struct Lane {
  explicit Lane(Bytes size) : state(size) {}
  memory::LaneState state;
  bool open = true;
  std::array<Job*, 2> at = {nullptr, nullptr};  // steps in flight, by end
  End leader = End::kBottom;                    // of two
  End granted = End::kTop;                      // the end that was granted last
  std::vector<Job*> waiting;                    // unordered

  Job* on(End end) const { return at[static_cast<size_t>(end)]; }
  Job*& on(End end) { return at[static_cast<size_t>(end)]; }
  bool Leads(End end) const { return on(Other(end)) == nullptr || leader == end; }
};

struct Launch {
  std::shared_ptr<Job> job;  // may have been removed since
  LaneId lane;
  End end = End::kBottom;
  int64_t step = 0;
  bool last = false;
};

struct Scheduler::Impl {
  Policy policy = Policy::kFair;
  SchedulerRules rules;
  std::vector<Lane> lanes;
  std::vector<LaneId> turn;  // lanes, least recently granted first
  absl::flat_hash_map<JobId, std::shared_ptr<Job>> jobs;
  absl::flat_hash_map<LaunchSeq, Launch> launches;  // not finished
  int64_t next_seq = 0;
  int64_t next_ready = 0;
  int64_t most_overtaken = 0;

  Lane& lane(LaneId id) {
    EBB_CHECK(id.valid() && id.index() < lanes.size());
    return lanes[id.index()];
  }
  const Lane& lane(LaneId id) const {
    EBB_CHECK(id.valid() && id.index() < lanes.size());
    return lanes[id.index()];
  }
  Job& job(JobId id) const {
    const auto it = jobs.find(id);
    EBB_CHECK(it != jobs.end());
    return *it->second;
  }

  // The head of the waiting queue for an end; null when nobody could launch there.
  Job* Head(LaneId id, End end) const;
  // The job's next step could launch on this end at once, memory and order aside.
  bool CouldStart(LaneId id, End end, const Job& job) const;
  // A job of the lane for which the policy holds `job` back; null if there is none.
  const Job* HeldBackBy(LaneId id, const Job& job) const;
  // The one inequality, for the next sub-model of `job` on `end`.
  bool Granted(const Lane& lane, End end, const Job& job) const;
  std::optional<Decision> TryEnd(LaneId id, End end);
  // With both ends free: is this the one where the next step should start?
  bool Prefers(LaneId id, End end, const Job& head) const;
  void Start(LaneId id, End end, Job& job);

  // turns.cc: the job's step is ready and will start in time.
  bool InTheRunning(const Job& job) const;
  // One that `job` takes turns with and whose step is in flight or comes first; null if there is
  // none.
  const Job* WhoseTurn(const Job& job) const;
  std::vector<LaunchSeq> AfterTurns(const Job& job) const;
  void CountOvertaken(LaneId id, End end, const Job& started);
  void LeaveTurns(Job& job);

  Decision Enqueue(LaneId id, End end, Job& job);
  std::optional<LaunchSeq> ApplyWaitRule(const Lane& lane, End end, LaunchSeq seq,
                                         std::optional<LaunchSeq> wait) const;
  // The step on `end` has no more sub-models to launch.
  void Depart(Lane& lane, End end);
  void Dequeue(Job& job);
  void DropStep(Job& job);
};

}  // namespace ebb::scheduler
