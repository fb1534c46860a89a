// How policies order the waiting queue of a lane. A policy is one row of a table: safety does not
// depend on it, and ageing is added for all of them here.
#pragma once

#include <cstdint>

#include "scheduler/scheduler.h"

namespace ebb::scheduler {

// What a policy may look at.
struct Candidate {
  JobParams params;
  int64_t ready_order = 0;   // grows by one a Ready()
  int64_t overtaken = 0;     // see Scheduler::Overtaken
  double attained = 0;       // microseconds of service over weight
  double pending = 0;        // the same of launches outstanding, by how long its last step took
  double step_duration = 0;  // microseconds of service of its last whole step; 0 if unknown
};

inline bool Aged(const Candidate& candidate) { return candidate.overtaken >= kAgeAfter; }

// True if `a` starts before `b`. A strict order, since no two have the same ready_order.
bool StartsBefore(Policy policy, const Candidate& a, const Candidate& b);

bool MayHoldBack(Policy policy);
// True if `job` must not start a step that would keep `other`'s next one from starting. Then
// `other` starts before `job`.
bool HoldsBack(Policy policy, const Candidate& job, const Candidate& other);

}  // namespace ebb::scheduler
