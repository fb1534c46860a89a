#include "perfmodel/simulate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <queue>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "base/status.h"

namespace ebb::perfmodel {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct TaskId {
  int rank = 0;
  int task = 0;
};

absl::Status CheckOptions(size_t ranks, const SimulateOptions& options) {
  if (!options.straggler.empty() && options.straggler.size() != ranks) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d factors of stragglers for %d ranks", options.straggler.size(), ranks));
  }
  for (const double factor : options.straggler) {
    if (!std::isfinite(factor) || factor <= 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("a straggler's factor must be above 0, is %g", factor));
    }
  }
  for (const auto& row : options.interference.slowdown) {
    for (const double factor : row) {
      if (!std::isfinite(factor) || factor < 1) {
        return absl::InvalidArgumentError(
            absl::StrFormat("a slowdown must be at least 1, is %g", factor));
      }
    }
  }
  return absl::OkStatus();
}

// What runs at a rate: a task of its own, or a collective of several ranks.
struct Work {
  std::vector<TaskId> members;  // one a rank, in their order
  int missing = 0;              // members that are not ready yet
  double remaining = 0;         // us at full speed
  double updated = 0;           // when `remaining` was true
  double slowdown = 1;
  double end = kNever;
};

struct TaskState {
  int work = -1;
  int blockers = 0;          // launch, stream and `after` that are still to come
  std::vector<int> release;  // later tasks of the rank that wait for this one
  double slowdown = 1;       // of this rank alone
  bool done = false;
};

struct RankState {
  std::vector<TaskState> tasks;
  std::vector<int> running;  // tasks of the rank that run now
  int compute = 0, copy = 0, communication = 0, waiting = 0;
  int next = 0;           // task that the host launches next
  int host_blockers = 0;  // tasks that the host waits for
  bool finished = false;  // host and all tasks
  int left = 0;           // tasks that have not ended
  double accounted = 0;   // up to here `parts` is complete
  double factor = 1;
};

class Simulation {
 public:
  Simulation(absl::Span<const RankProgram> programs, const SimulateOptions& options)
      : programs_(programs), options_(options), ranks_(programs.size()) {
    step_.ranks.resize(programs.size());
  }

  absl::Status Prepare();
  absl::StatusOr<Step> Run();

 private:
  // Ends before launches at one instant; then by rank and index, for one order whatever happens.
  struct Event {
    double at;
    int launch_of;  // rank whose host's time is up, or -1
    int work;       // that ends, or -1
    bool operator>(const Event& other) const {
      return std::tie(at, launch_of, work) > std::tie(other.at, other.launch_of, other.work);
    }
  };

  void PrepareRank(int rank);
  void ScheduleLaunch(int rank);
  void Launched(int rank);
  void GoOn(int rank);
  void Unblock(TaskId id);
  void Ready(TaskId id);
  void Begin(int work);
  void Finish(int work);
  void Ended(TaskId id);
  void Reweigh(int rank);
  void SetSlowdown(int work);
  void Account(int rank);
  absl::Status Stuck() const;
  void Total();

  TaskTimes& times(TaskId id) { return step_.ranks[id.rank].tasks[id.task]; }
  TaskState& state(TaskId id) { return ranks_[id.rank].tasks[id.task]; }
  const Task& task(TaskId id) const { return programs_[id.rank].tasks[id.task]; }

  absl::Span<const RankProgram> programs_;
  const SimulateOptions& options_;
  std::vector<RankState> ranks_;
  std::vector<Work> works_;
  absl::flat_hash_map<int, int> collectives_;  // number to index of works_
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_ = 0;
  Step step_;
};

void Simulation::PrepareRank(int rank) {
  const std::vector<Task>& tasks = programs_[rank].tasks;
  RankState& it = ranks_[rank];
  it.tasks.resize(tasks.size());
  it.left = static_cast<int>(tasks.size());
  it.factor = options_.straggler.empty() ? 1 : options_.straggler[rank];
  step_.ranks[rank].tasks.resize(tasks.size());
  absl::flat_hash_map<int, int> last_of_stream;
  for (int index = 0; index < it.left; ++index) {
    const TaskId id{rank, index};
    it.tasks[index].blockers = 1;
    if (tasks[index].host_waits) continue;
    for (const int earlier : tasks[index].after) {
      it.tasks[earlier].release.push_back(index);
      ++it.tasks[index].blockers;
    }
    const auto [last, first] = last_of_stream.try_emplace(tasks[index].stream, index);
    if (!first) {
      it.tasks[last->second].release.push_back(index);
      ++it.tasks[index].blockers;
      last->second = index;
    }
    int work = static_cast<int>(works_.size());
    if (tasks[index].collective >= 0) {
      work = collectives_.try_emplace(tasks[index].collective, work).first->second;
    }
    if (work == static_cast<int>(works_.size())) works_.emplace_back();
    Work& its = works_[work];
    it.tasks[index].work = work;
    its.members.push_back(id);
    ++its.missing;
    const double factor = tasks[index].collective >= 0 ? 1 : it.factor;
    its.remaining = std::max(its.remaining, tasks[index].micros * factor);
  }
}

absl::Status Simulation::Prepare() {
  EBB_RETURN_IF_ERROR(CheckPrograms(programs_));
  EBB_RETURN_IF_ERROR(CheckOptions(programs_.size(), options_));
  for (size_t rank = 0; rank < programs_.size(); ++rank) PrepareRank(static_cast<int>(rank));
  return absl::OkStatus();
}

absl::StatusOr<Step> Simulation::Run() {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) ScheduleLaunch(static_cast<int>(rank));
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    if (event.work >= 0 && works_[event.work].end != event.at) continue;  // its rate has changed
    now_ = event.at;
    if (event.work >= 0) {
      Finish(event.work);
    } else {
      Launched(event.launch_of);
    }
  }
  EBB_RETURN_IF_ERROR(Stuck());
  Total();
  return std::move(step_);
}

void Simulation::ScheduleLaunch(int rank) {
  RankState& it = ranks_[rank];
  if (it.next == static_cast<int>(it.tasks.size())) {
    Account(rank);
    step_.ranks[rank].host_end = now_;
    it.finished = it.left == 0;
    return;
  }
  events_.push({now_ + programs_[rank].tasks[it.next].host_us * it.factor, rank, -1});
}

void Simulation::Launched(int rank) {
  RankState& it = ranks_[rank];
  const TaskId id{rank, it.next};
  times(id).launched = now_;
  if (!task(id).host_waits) {
    ++it.next;
    Unblock(id);
    ScheduleLaunch(rank);
    return;
  }
  times(id).start = now_;
  it.host_blockers = 1;
  for (const int earlier : task(id).after) {
    if (!it.tasks[earlier].done) {
      ++it.host_blockers;
      it.tasks[earlier].release.push_back(id.task);
    }
  }
  GoOn(rank);
}

// One thing less that the host waits for.
void Simulation::GoOn(int rank) {
  RankState& it = ranks_[rank];
  if (--it.host_blockers > 0) return;
  const TaskId id{rank, it.next};
  ++it.next;
  times(id).end = now_;
  Ended(id);
  ScheduleLaunch(rank);
}

void Simulation::Unblock(TaskId id) {
  if (--state(id).blockers == 0) Ready(id);
}

void Simulation::Ready(TaskId id) {
  times(id).start = now_;
  Account(id.rank);
  ++ranks_[id.rank].waiting;
  const int work = state(id).work;
  if (--works_[work].missing == 0) Begin(work);
}

// The counter of what a rank does that a running task belongs to.
int& Counter(RankState& rank, const Task& task) {
  if (task.collective >= 0 || task.resource == Resource::kCommunication) return rank.communication;
  return task.resource == Resource::kCopy ? rank.copy : rank.compute;
}

void Simulation::Begin(int work) {
  Work& it = works_[work];
  it.updated = now_;
  it.end = now_ + it.remaining;
  events_.push({it.end, -1, work});
  for (const TaskId id : it.members) {
    Account(id.rank);
    TaskTimes& when = times(id);
    when.wait = now_ - when.start;
    RankState& rank = ranks_[id.rank];
    --rank.waiting;
    ++Counter(rank, task(id));
    rank.running.push_back(id.task);
  }
  for (const TaskId id : it.members) Reweigh(id.rank);
}

void Simulation::Finish(int work) {
  works_[work].end = kNever;
  const std::vector<TaskId>& members = works_[work].members;
  for (const TaskId id : members) {
    Account(id.rank);
    RankState& rank = ranks_[id.rank];
    --Counter(rank, task(id));
    rank.running.erase(std::find(rank.running.begin(), rank.running.end(), id.task));
    times(id).end = now_;
  }
  for (const TaskId id : members) Reweigh(id.rank);
  for (const TaskId id : members) Ended(id);
}

void Simulation::Ended(TaskId id) {
  RankState& rank = ranks_[id.rank];
  state(id).done = true;
  --rank.left;
  // What a release changes may add to the list of a later task, never to this one.
  const std::vector<int> released = std::move(state(id).release);
  for (const int next : released) {
    if (programs_[id.rank].tasks[next].host_waits) {
      GoOn(id.rank);
    } else {
      Unblock({id.rank, next});
    }
  }
  if (rank.left == 0 && rank.next == static_cast<int>(rank.tasks.size())) {
    Account(id.rank);
    rank.finished = true;
  }
}

// The running tasks of a rank slow each other anew.
void Simulation::Reweigh(int rank) {
  RankState& it = ranks_[rank];
  for (const int index : it.running) {
    double slowdown = 1;
    for (const int other : it.running) {
      if (other == index) continue;
      slowdown += options_.interference.of(programs_[rank].tasks[index].resource,
                                           programs_[rank].tasks[other].resource) -
                  1;
    }
    TaskState& task = it.tasks[index];
    if (task.slowdown == slowdown) continue;
    task.slowdown = slowdown;
    SetSlowdown(task.work);
  }
}

void Simulation::SetSlowdown(int work) {
  Work& it = works_[work];
  double slowdown = 1;
  for (const TaskId id : it.members) slowdown = std::max(slowdown, state(id).slowdown);
  if (it.slowdown == slowdown) return;
  it.remaining = std::max(0.0, it.remaining - (now_ - it.updated) / it.slowdown);
  it.updated = now_;
  it.slowdown = slowdown;
  it.end = now_ + it.remaining * slowdown;
  events_.push({it.end, -1, work});
}

void Simulation::Account(int rank) {
  RankState& it = ranks_[rank];
  Breakdown& parts = step_.ranks[rank].parts;
  const double passed = now_ - it.accounted;
  it.accounted = now_;
  if (it.compute > 0) {
    parts.compute += passed;
  } else if (it.copy > 0) {
    parts.copy += passed;
  } else if (it.communication > 0) {
    parts.exposed_communication += passed;
  } else if (it.waiting > 0 || it.finished) {
    parts.waiting += passed;
  } else {
    parts.host += passed;
  }
}

// Of the ranks that have not finished, the first, and who it waits for.
absl::Status Simulation::Stuck() const {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const RankState& it = ranks_[rank];
    if (it.finished || it.tasks.empty()) continue;
    // All that it could wait for on its own rank has ended: it is a collective that waits.
    int index = 0;
    while (it.tasks[index].done) ++index;
    const TaskId id{static_cast<int>(rank), index};
    std::string others;
    for (const TaskId other : works_[it.tasks[index].work].members) {
      if (ranks_[other.rank].tasks[other.task].blockers > 0) {
        absl::StrAppendFormat(&others, "%s%s", others.empty() ? "" : "; ",
                              Named(programs_, other.rank, other.task));
      }
    }
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s waits for ever, for what never begins: %s. All ranks must come to their collectives in "
        "one order",
        Named(programs_, id.rank, id.task), others));
  }
  return absl::OkStatus();
}

void Simulation::Total() {
  for (RankStep& rank : step_.ranks) {
    rank.end = rank.host_end;
    for (const TaskTimes& task : rank.tasks) rank.end = std::max(rank.end, task.end);
    step_.micros = std::max(step_.micros, rank.end);
  }
  now_ = step_.micros;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) Account(static_cast<int>(rank));
  const auto mean = [&](double Breakdown::*part) {
    std::vector<double> values;  // in order of size: the same sum whatever the ranks' order
    for (const RankStep& rank : step_.ranks) values.push_back(rank.parts.*part);
    std::sort(values.begin(), values.end());
    double sum = 0;
    for (const double value : values) sum += value;
    return values.empty() ? 0 : sum / static_cast<double>(values.size());
  };
  step_.parts = {mean(&Breakdown::compute), mean(&Breakdown::copy),
                 mean(&Breakdown::exposed_communication), mean(&Breakdown::waiting),
                 mean(&Breakdown::host)};
}

}  // namespace

absl::StatusOr<Step> Simulate(absl::Span<const RankProgram> ranks, const SimulateOptions& options) {
  Simulation simulation(ranks, options);
  EBB_RETURN_IF_ERROR(simulation.Prepare());
  return simulation.Run();
}

}  // namespace ebb::perfmodel
