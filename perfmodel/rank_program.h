// What the ranks of a training step do: tasks in the order in which each rank's host launches them.
// Plain data; perfmodel/simulate.h runs it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace ebb::perfmodel {

// What a task keeps busy; tasks of two resources at once slow each other down.
enum class Resource : uint8_t { kCompute, kCommunication, kCopy };

struct Task {
  std::string name;
  int stream = 0;  // of its rank; tasks of a stream run in order
  Resource resource = Resource::kCompute;
  double host_us = 0;  // of the host's time before the task is on its stream, its launch included
  double micros = 0;   // alone; of a collective from the instant when its last rank has come
  std::vector<int> after;   // earlier tasks of the rank that must have ended, whatever their stream
  bool host_waits = false;  // the host goes on when all tasks of `after` have ended; no work itself
  int collective = -1;      // tasks of one number, one a rank, begin together; -1: none
};

struct RankProgram {
  std::vector<Task> tasks;
};

// InvalidArgument names rank and task where a program is none: an `after` that is no earlier task,
// a time that is not from 0 to 1e15 us, a collective twice on one rank.
absl::Status CheckPrograms(absl::Span<const RankProgram> ranks);

// "rank 1, task 4 (all_reduce of gradients)", for messages.
std::string Named(absl::Span<const RankProgram> ranks, int rank, int task);

}  // namespace ebb::perfmodel
