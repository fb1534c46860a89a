#include "perfmodel/rank_program.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "base/status.h"

namespace ebb::perfmodel {
namespace {

// Up to some thirty years, so that sums stay finite.
bool IsTime(double value) { return value >= 0 && value <= 1e15; }

absl::Status CheckTask(absl::Span<const RankProgram> ranks, int rank, int index) {
  const Task& task = ranks[rank].tasks[index];
  if (!IsTime(task.host_us) || !IsTime(task.micros)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: times must be from 0 to 1e15 us, are %g of the host and %g of the device",
        Named(ranks, rank, index), task.host_us, task.micros));
  }
  for (const int earlier : task.after) {
    if (earlier < 0 || earlier >= index) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s: comes after task %d, which is not an earlier one",
                          Named(ranks, rank, index), earlier));
    }
  }
  if (task.host_waits && task.collective >= 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: the host's waiting is no part of a collective", Named(ranks, rank, index)));
  }
  return absl::OkStatus();
}

}  // namespace

std::string Named(absl::Span<const RankProgram> ranks, int rank, int task) {
  return absl::StrFormat("rank %d, task %d (%s)", rank, task, ranks[rank].tasks[task].name);
}

absl::Status CheckPrograms(absl::Span<const RankProgram> ranks) {
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
    const std::vector<Task>& tasks = ranks[rank].tasks;
    absl::flat_hash_set<int> collectives;
    for (int index = 0; index < static_cast<int>(tasks.size()); ++index) {
      EBB_RETURN_IF_ERROR(CheckTask(ranks, rank, index));
      const int collective = tasks[index].collective;
      if (collective >= 0 && !collectives.insert(collective).second) {
        return absl::InvalidArgumentError(
            absl::StrFormat("%s: collective %d is an earlier task of the rank too",
                            Named(ranks, rank, index), collective));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace ebb::perfmodel
