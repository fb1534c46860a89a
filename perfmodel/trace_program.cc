#include "perfmodel/trace_program.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"

namespace ebb::perfmodel {
namespace {

bool Communicates(const KinetoEvent& event) {
  return event.kind == KinetoKind::kKernel &&
         (!event.collective.empty() || absl::StartsWithIgnoreCase(event.name, "nccl"));
}

Resource ResourceOf(const KinetoEvent& event) {
  if (Communicates(event)) return Resource::kCommunication;
  return event.kind == KinetoKind::kKernel ? Resource::kCompute : Resource::kCopy;
}

// One collective as one rank sees it.
struct Seen {
  int task = 0;
  std::string group;
  TracedCollective what;
};

struct RankBuild {
  RankProgram program;
  std::vector<Seen> collectives;
};

class Builder {
 public:
  Builder(const RankTrace& rank, const HostTimes* host, double begin)
      : trace_(*rank.trace), timeline_(*rank.timeline), host_(host), pending_us_(begin) {}

  RankBuild Run() {
    for (const HostPiece& piece : timeline_.pieces) {
      pending_us_ += host_ != nullptr ? host_->Of(piece) : piece.micros;
      switch (piece.act) {
        case HostAct::kNone:
          break;
        case HostAct::kLaunch:
          Launch(piece);
          break;
        case HostAct::kAwaitCollective:
          AwaitCollective(piece);
          break;
        case HostAct::kAwaitLast:
          if (last_ >= 0) Await(piece, {last_of_stream_[build_.program.tasks[last_].stream]});
          break;
        case HostAct::kAwaitAll: {
          std::vector<int> all;
          for (const auto& [stream, task] : last_of_stream_) all.push_back(task);
          Await(piece, std::move(all));
        }
      }
    }
    Await({.op = "end of the step"}, {});
    return std::move(build_);
  }

 private:
  int Add(Task task) {
    task.host_us = std::exchange(pending_us_, 0);
    build_.program.tasks.push_back(std::move(task));
    return static_cast<int>(build_.program.tasks.size()) - 1;
  }

  void Await(const HostPiece& piece, std::vector<int> tasks) {
    if (host_ == nullptr && !tasks.empty()) return;  // the times have the waiting in them
    Add({.name = piece.op, .after = std::move(tasks), .host_waits = true});
  }

  void Launch(const HostPiece& piece) {
    const KinetoEvent& event = trace_.events[piece.event];
    Task task;
    task.name = event.name;
    task.stream = event.stream;
    task.resource = ResourceOf(event);
    task.micros = event.micros;
    const bool communicates = task.resource == Resource::kCommunication;
    if (communicates && last_compute_ >= 0) task.after.push_back(last_compute_);
    if (!communicates && awaited_ >= 0) task.after.push_back(std::exchange(awaited_, -1));
    const int stream = task.stream;
    last_ = Add(std::move(task));
    last_of_stream_[stream] = last_;
    if (!communicates) {
      last_compute_ = last_;
      return;
    }
    last_collective_ = last_;
    build_.collectives.push_back(Describe(piece, event));
  }

  Seen Describe(const HostPiece& piece, const KinetoEvent& event) {
    Seen seen{.task = last_, .group = event.group, .what = {.name = event.name}};
    if (!event.collective.empty()) seen.what.name = event.collective;
    seen.what.ranks = event.group_size;
    if (piece.collective == nullptr) return seen;
    const RecordedCollective& recorded = *piece.collective;
    seen.what.name = recorded.name;
    if (recorded.group_size > 0) seen.what.ranks = recorded.group_size;
    seen.what.bytes =
        static_cast<double>(recorded.in_elements) * static_cast<double>(recorded.element_bytes);
    if (seen.group.empty()) seen.group = recorded.group;
    if (seen.group.empty()) {
      // An address says nothing on another rank; the order of the groups does.
      const int at = static_cast<int>(address_.size());
      seen.group = absl::StrCat("#", address_.try_emplace(recorded.address, at).first->second);
    }
    sequence_[{seen.group, recorded.sequence}] = last_;
    return seen;
  }

  void AwaitCollective(const HostPiece& piece) {
    const RecordedCollective* const recorded = piece.collective;
    if (recorded == nullptr || recorded->name != "wait") {
      awaited_ = std::max(awaited_, last_collective_);
      return;
    }
    // Of no task of the step: the wait is for one of the step before.
    for (const auto& [key, task] : sequence_) {
      if (key.second == recorded->sequence) awaited_ = std::max(awaited_, task);
    }
  }

  const KinetoTrace& trace_;
  const HostTimeline& timeline_;
  const HostTimes* host_;
  double pending_us_;
  RankBuild build_;
  int last_ = -1, last_compute_ = -1, last_collective_ = -1;
  int awaited_ = -1;  // that the next task of computation waits for
  std::map<int, int> last_of_stream_;
  std::map<int64_t, int> address_;
  std::map<std::pair<std::string, int64_t>, int> sequence_;  // group and number to task
};

// The n-th collective of a group is one on all its ranks.
absl::Status Number(std::vector<RankBuild>& builds, TracedPrograms& programs) {
  std::map<std::pair<std::string, int>, int> number_of;
  std::vector<int> members;
  for (size_t rank = 0; rank < builds.size(); ++rank) {
    std::map<std::string, int> ordinal;
    for (const Seen& seen : builds[rank].collectives) {
      const int next = static_cast<int>(number_of.size());
      const auto [it, is_new] = number_of.try_emplace({seen.group, ordinal[seen.group]++}, next);
      Task& task = builds[rank].program.tasks[seen.task];
      task.collective = it->second;
      if (is_new) {
        programs.collectives.push_back(seen.what);
        programs.collectives.back().shortest = std::numeric_limits<double>::infinity();
        programs.collectives.back().bytes = 0;
        members.push_back(0);
      }
      TracedCollective& whole = programs.collectives[it->second];
      if (whole.name != seen.what.name) {
        return absl::InvalidArgumentError(
            absl::StrFormat("rank %d: collective %d of group \"%s\" is %s, of another rank %s",
                            rank, it->first.second, seen.group, seen.what.name, whole.name));
      }
      whole.shortest = std::min(whole.shortest, task.micros);
      whole.bytes += seen.what.bytes;
      ++members[it->second];
    }
  }
  for (size_t number = 0; number < members.size(); ++number) {
    TracedCollective& whole = programs.collectives[number];
    whole.bytes /= members[number];
    if (whole.ranks > 0 && whole.ranks != members[number] &&
        members[number] < static_cast<int>(builds.size())) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s has %d ranks, %d have it in their traces", whole.name, whole.ranks, members[number]));
    }
    whole.ranks = members[number];
  }
  return absl::OkStatus();
}

absl::StatusOr<TracedPrograms> Build(absl::Span<const RankTrace> ranks, const HostTimes* host) {
  TracedPrograms programs;
  double first = std::numeric_limits<double>::infinity();
  for (const RankTrace& rank : ranks) first = std::min(first, rank.timeline->begin);
  std::vector<RankBuild> builds;
  for (const RankTrace& rank : ranks) {
    programs.begins.push_back(rank.timeline->begin - first);
    builds.push_back(Builder(rank, host, programs.begins.back()).Run());
  }
  EBB_RETURN_IF_ERROR(Number(builds, programs));
  for (RankBuild& build : builds) {
    for (Task& task : build.program.tasks) {
      if (task.collective >= 0) task.micros = programs.collectives[task.collective].shortest;
    }
    programs.ranks.push_back(std::move(build.program));
  }
  return programs;
}

}  // namespace

absl::StatusOr<TracedPrograms> ReplayOf(absl::Span<const RankTrace> ranks) {
  return Build(ranks, nullptr);
}

absl::StatusOr<TracedPrograms> ProgramsOf(absl::Span<const RankTrace> ranks,
                                          const HostTimes& host) {
  return Build(ranks, &host);
}

double DeviceEnd(const RankProgram& program, absl::Span<const double> ends, double begin) {
  double last = 0;
  for (size_t task = 0; task < program.tasks.size(); ++task) {
    if (!program.tasks[task].host_waits) last = std::max(last, ends[task]);
  }
  return last - begin;
}

}  // namespace ebb::perfmodel
