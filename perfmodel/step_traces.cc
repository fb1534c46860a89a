#include "perfmodel/step_traces.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ebb::perfmodel {
namespace {

KinetoKind KindOf(const Task& task) {
  return task.resource == Resource::kCopy && task.collective < 0 ? KinetoKind::kMemcpy
                                                                 : KinetoKind::kKernel;
}

KinetoEvent HostEvent(const Task& task, const TaskTimes& times, int64_t correlation) {
  KinetoEvent event{.kind = KinetoKind::kRuntime, .name = "launch"};
  event.begin = times.launched - task.host_us;
  event.micros = task.host_us;
  event.correlation = correlation;
  if (task.host_waits) {
    event.name = task.name;
    event.begin = times.start;
    event.micros = times.end - times.start;
    event.correlation = -1;
  }
  event.begin = std::max(0.0, event.begin);
  return event;
}

std::optional<ChakraCollective> TypeOf(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return ChakraCollective::kAllReduce;
    case CollectiveKind::kAllGather:
      return ChakraCollective::kAllGather;
    case CollectiveKind::kReduceScatter:
      return ChakraCollective::kReduceScatter;
    case CollectiveKind::kAllToAll:
      return ChakraCollective::kAllToAll;
    case CollectiveKind::kBroadcast:
      return ChakraCollective::kBroadcast;
    case CollectiveKind::kSendRecv:
      break;
  }
  return std::nullopt;
}

void DescribeCollective(const NamedCollective& named, int tag, int rank, ChakraNode& node) {
  const auto add = [&](const char* name, int64_t value) {
    node.attributes.push_back({name, value});
  };
  add("comm_size", std::llround(std::min(named.what.bytes, 9e18)));
  node.attributes.push_back({"pg_name", named.group});
  if (const auto type = TypeOf(named.what.kind)) {
    add("comm_type", static_cast<int64_t>(*type));
    return;
  }
  node.type = rank == named.destination ? ChakraType::kReceive : ChakraType::kSend;
  add("comm_src", named.source);
  add("comm_dst", named.destination);
  add("comm_tag", tag);
}

}  // namespace

KinetoTrace KinetoOf(const RankProgram& program, const RankStep& step, int rank, int ranks) {
  KinetoTrace trace{.rank = rank, .ranks = ranks, .device = {}, .origin_us = 0, .events = {}};
  for (size_t index = 0; index < program.tasks.size(); ++index) {
    const Task& task = program.tasks[index];
    const TaskTimes& times = step.tasks[index];
    const auto correlation = static_cast<int64_t>(index) + 1;
    trace.events.push_back(HostEvent(task, times, correlation));
    if (task.host_waits) continue;
    KinetoEvent event{.kind = KindOf(task), .name = task.name, .begin = times.start};
    event.micros = times.end - times.start;
    event.stream = task.stream;
    event.thread = int64_t{task.stream} + 1;  // 0 is the host
    event.correlation = correlation;
    trace.events.push_back(event);
    if (times.wait <= 0) continue;
    event.kind = KinetoKind::kAnnotation;
    event.name = absl::StrCat("waiting for ranks: ", task.name);
    event.micros = times.wait;
    event.correlation = -1;
    trace.events.push_back(std::move(event));
  }
  std::stable_sort(trace.events.begin(), trace.events.end(),
                   [](const KinetoEvent& a, const KinetoEvent& b) {
                     return std::pair(a.begin, -a.micros) < std::pair(b.begin, -b.micros);
                   });
  return trace;
}

ChakraTrace ChakraOf(const RankProgram& program, absl::Span<const NamedCollective> collectives,
                     int rank, const RankStep* step) {
  ChakraTrace trace{.version = "0.0.4", .attributes = {}, .nodes = {}};
  trace.attributes.push_back({"rank", int64_t{rank}});
  std::map<int, uint64_t> last_of_stream;
  uint64_t host = 0;  // the last task that the host has waited for; 0: none
  for (size_t index = 0; index < program.tasks.size(); ++index) {
    const Task& task = program.tasks[index];
    ChakraNode node{.id = index + 1, .name = task.name, .type = ChakraType::kCompute};
    node.micros = static_cast<uint64_t>(std::llround(task.micros));
    if (step != nullptr) {
      node.start_us = static_cast<uint64_t>(std::llround(step->tasks[index].start));
    }
    for (const int earlier : task.after) {
      node.data_deps.push_back(static_cast<uint64_t>(earlier) + 1);
    }
    if (host > 0) node.control_deps.push_back(host);
    if (task.host_waits) {
      host = node.id;
    } else {
      uint64_t& last = last_of_stream[task.stream];
      if (last > 0) node.control_deps.push_back(last);
      last = node.id;
    }
    node.attributes.push_back({"is_cpu_op", task.host_waits});
    node.attributes.push_back({"stream", int64_t{task.stream}});
    if (task.collective >= 0) {
      node.type = ChakraType::kCollective;
      if (static_cast<size_t>(task.collective) < collectives.size()) {
        DescribeCollective(collectives[task.collective], task.collective, rank, node);
      }
    }
    trace.nodes.push_back(std::move(node));
  }
  return trace;
}

}  // namespace ebb::perfmodel
