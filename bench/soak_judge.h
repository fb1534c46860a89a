// What a soak finds wrong, as pure functions of what it saw. An empty answer: nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/engine.h"

namespace ebb::bench {

// How a job should end, by what was done to it.
struct ExpectedEnd {
  int64_t steps = 0;       // unless one of the following
  bool cancelled = false;  // before it was final
  bool failed = false;     // a launch of it failed
};
std::string JudgeEnd(const runtime::JobInfo& info, const ExpectedEnd& expected);

// A new stopping rule of `stop` steps for a job that was at `before`: the end may not lie below
// what has been handed out, which is a few steps beyond.
std::string JudgeNewEnd(const runtime::JobInfo& before, int64_t stop,
                        const runtime::JobInfo& after);

// Classes, lanes, blocks and jobs agree to the byte.
std::string JudgeLedger(const runtime::MemoryReport& report);
// Nothing is left of the jobs.
std::string JudgeBaseline(const runtime::MemoryReport& baseline,
                          const runtime::MemoryReport& report);

// Nothing moves any more on the device: is there a job that should go on? A queued one may wait for
// the memory of a paused one.
std::string JudgeRest(const std::vector<runtime::JobInfo>& jobs);

// `jobs`: the most that could share a lane.
std::string JudgeWait(int64_t most_overtaken, int64_t jobs);

}  // namespace ebb::bench
