#include "perfmodel/host_timeline.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "base/status.h"

namespace ebb::perfmodel {
namespace {

constexpr absl::string_view kCommunication = "record_param_comms";
using CollectiveOf = absl::flat_hash_map<int, const RecordedCollective*>;  // by event

// Events of one thread that are collectives, and the nodes of one, in their order.
struct Joined {
  std::map<int64_t, std::vector<const ExecutionNode*>> nodes;
  std::vector<std::vector<int>> events;
};

absl::StatusOr<CollectiveOf> Join(const KinetoTrace& trace, const ExecutionTrace& execution) {
  CollectiveOf answer;
  absl::flat_hash_map<int64_t, const ExecutionNode*> by_function;
  Joined joined;
  for (const ExecutionNode& node : execution.nodes) {
    if (!node.collective) continue;
    by_function[node.record_function] = &node;
    joined.nodes[node.thread].push_back(&node);
  }
  absl::flat_hash_map<int64_t, size_t> thread_of;
  for (int index = 0; index < static_cast<int>(trace.events.size()); ++index) {
    const KinetoEvent& event = trace.events[index];
    if (event.kind != KinetoKind::kOp || event.name != kCommunication) continue;
    if (event.record_function >= 0) {
      const auto node = by_function.find(event.record_function);
      if (node != by_function.end()) answer[index] = &*node->second->collective;
      continue;
    }
    const size_t at = thread_of.try_emplace(event.thread, joined.events.size()).first->second;
    if (at == joined.events.size()) joined.events.emplace_back();
    joined.events[at].push_back(index);
  }
  if (joined.events.empty()) return answer;
  size_t at = 0;
  for (const auto& [thread, nodes] : joined.nodes) {
    const size_t found = at < joined.events.size() ? joined.events[at].size() : 0;
    if (found != nodes.size()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("thread %d of the execution trace has %d collectives, the Kineto trace's "
                          "%d: they are not "
                          "of one step",
                          thread, nodes.size(), found));
    }
    for (size_t i = 0; i < found; ++i) {
      answer[joined.events[at][i]] = &*nodes[i]->collective;
    }
    ++at;
  }
  return answer;
}

HostAct ActOf(absl::string_view call) {
  if (call == "cudaStreamSynchronize" || call == "cudaEventSynchronize") return HostAct::kAwaitLast;
  if (call == "cudaDeviceSynchronize") return HostAct::kAwaitAll;
  if (call == "cudaStreamWaitEvent") return HostAct::kAwaitCollective;
  return HostAct::kNone;
}

// "ProfilerStep#10" and "ProfilerStep#11" are one op.
std::string OpName(const std::string& name) {
  return absl::StartsWith(name, "ProfilerStep#") ? "ProfilerStep" : name;
}

class Walk {
 public:
  Walk(const KinetoTrace& trace, const CollectiveOf& collectives)
      : trace_(trace), collectives_(collectives) {
    for (int index = 0; index < static_cast<int>(trace.events.size()); ++index) {
      const KinetoEvent& event = trace.events[index];
      if (event.on_device() && event.correlation >= 0) launched_[event.correlation] = index;
    }
  }

  HostTimeline Run();

 private:
  struct Open {
    std::string name;
    double end = 0;
    bool range = false;         // an annotation, or the step itself
    std::string previous = {};  // the last thing in it
    const RecordedCollective* collective = nullptr;
    bool communicates = false;  // of a collective's own op or range
  };

  void Enter(int index);
  void Leave();
  void Advance(HostPart part, double to, const std::string& next);
  HostPiece Call(const KinetoEvent& event, const Open& in);
  bool InCollective() const;
  bool Launches(int index) const;
  const RecordedCollective* Collective() const;

  const KinetoTrace& trace_;
  const CollectiveOf& collectives_;
  absl::flat_hash_map<int64_t, int> launched_;  // device events by correlation
  std::vector<Open> open_;
  double now_ = 0;
  HostTimeline timeline_;
};

const RecordedCollective* Walk::Collective() const {
  for (auto it = open_.rbegin(); it != open_.rend(); ++it) {
    if (it->collective != nullptr) return it->collective;
  }
  return nullptr;
}

bool Walk::InCollective() const {
  return std::any_of(open_.begin(), open_.end(), [](const Open& it) { return it.communicates; });
}

void Walk::Advance(HostPart part, double to, const std::string& next) {
  const Open& in = open_.back();
  timeline_.pieces.push_back({.part = part,
                              .op = in.name,
                              .previous = in.previous,
                              .next = next,
                              .micros = std::max(0.0, to - now_)});
  now_ = std::max(now_, to);
}

void Walk::Leave() {
  const bool empty = open_.back().previous.empty();
  Advance(empty ? HostPart::kWithin : HostPart::kAfter, open_.back().end, "");
  std::string name = std::move(open_.back().name);
  open_.pop_back();
  if (!open_.empty()) open_.back().previous = std::move(name);
}

HostPiece Walk::Call(const KinetoEvent& event, const Open& in) {
  HostPiece piece{.part = HostPart::kCall, .op = event.name, .previous = in.name};
  piece.micros = std::max(0.0, event.end() - now_);
  now_ = std::max(now_, event.end());
  piece.act = ActOf(event.name);
  const auto launched = launched_.find(event.correlation);
  if (launched != launched_.end()) {
    piece.act = HostAct::kLaunch;
    piece.event = launched->second;
    timeline_.device_end = std::max(timeline_.device_end, trace_.events[piece.event].end());
  }
  piece.collective = Collective();
  // A collective's own events order it after what its operands wait for; programs know that.
  if (piece.act == HostAct::kAwaitCollective && InCollective()) piece.act = HostAct::kNone;
  return piece;
}

// A collective's op or range in which something is launched: it is no wait for one.
bool Walk::Launches(int index) const {
  const KinetoEvent& range = trace_.events[index];
  if (range.name != kCommunication && !absl::StartsWith(range.name, "nccl:")) return false;
  for (size_t at = index + 1; at < trace_.events.size(); ++at) {
    const KinetoEvent& event = trace_.events[at];
    if (event.begin >= range.end()) break;
    if (event.kind == KinetoKind::kRuntime && event.thread == range.thread &&
        launched_.contains(event.correlation)) {
      return true;
    }
  }
  return false;
}

void Walk::Enter(int index) {
  const KinetoEvent& event = trace_.events[index];
  while (open_.size() > 1 && open_.back().end <= event.begin) Leave();
  Open& in = open_.back();
  const std::string name = OpName(event.name);
  const HostPart part = in.range              ? HostPart::kBetween
                        : in.previous.empty() ? HostPart::kBefore
                                              : HostPart::kWithin;
  Advance(part, event.begin, name);
  if (event.kind == KinetoKind::kRuntime) {
    timeline_.pieces.push_back(Call(event, in));
    in.previous = name;
    return;
  }
  const auto collective = collectives_.find(index);
  open_.push_back({.name = name,
                   .end = event.end(),
                   .range = event.kind == KinetoKind::kAnnotation,
                   .previous = "",
                   .collective = collective == collectives_.end() ? nullptr : collective->second,
                   .communicates = Launches(index)});
}

HostTimeline Walk::Run() {
  double begin = trace_.events.front().begin, end = 0;
  for (const KinetoEvent& event : trace_.events) {
    if (!event.on_device()) end = std::max(end, event.end());
  }
  for (const KinetoEvent& event : trace_.events) {
    if (event.kind == KinetoKind::kAnnotation && absl::StartsWith(event.name, "ProfilerStep#")) {
      begin = event.begin;
      end = event.end();
    }
  }
  now_ = begin;
  open_.push_back({.name = "step", .end = end, .range = true});
  for (int index = 0; index < static_cast<int>(trace_.events.size()); ++index) {
    const KinetoEvent& event = trace_.events[index];
    if (!event.on_device() && event.begin >= begin && event.begin < end) Enter(index);
  }
  while (!open_.empty()) Leave();
  timeline_.begin = trace_.origin_us + begin;
  timeline_.device_end += trace_.origin_us;
  return std::move(timeline_);
}

}  // namespace

absl::StatusOr<HostTimeline> TimelineOf(const KinetoTrace& trace, const ExecutionTrace* execution) {
  CollectiveOf collectives;
  if (execution != nullptr) {
    EBB_ASSIGN_OR_RETURN(collectives, Join(trace, *execution));
  }
  if (trace.events.empty()) return absl::InvalidArgumentError("the trace has no events");
  HostTimeline timeline = Walk(trace, collectives).Run();
  if (std::none_of(timeline.pieces.begin(), timeline.pieces.end(),
                   [](const HostPiece& piece) { return piece.act == HostAct::kLaunch; })) {
    return absl::InvalidArgumentError("nothing was launched in the trace's step");
  }
  return timeline;
}

}  // namespace ebb::perfmodel
