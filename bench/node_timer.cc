#include "bench/node_timer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "device/sim/kernel_times.h"
#include "graph/op.h"

namespace ebb::bench {

absl::StatusOr<std::unique_ptr<device::Program>> NodeTimer::Compile(
    const graph::Graph& graph) const {
  EBB_ASSIGN_OR_RETURN(std::unique_ptr<device::Program> program, inner().Compile(graph));
  auto times = std::make_unique<NodeTimes>();
  for (const graph::Node& node : graph.nodes) {
    const graph::OpCost work = graph::CostOf(graph, node);
    const bool is_view = work.flops == Flops(0) && work.bytes == Bytes(0);
    times->kernels.push_back(device::KernelKey(graph, node));
    times->names.push_back(absl::StrCat(node.id.value(), " ", node.op->name));
    // What no family covers still moves its bytes.
    auto described = perfmodel::WorkOf(graph, node);
    if (!described.ok()) {
      described.emplace().bytes = static_cast<double>(work.bytes.count());
    }
    times->works.push_back(*described);
    times->bytes.push_back(is_view ? 0 : static_cast<double>(work.bytes.count()));
  }
  times->micros.resize(graph.nodes.size());
  MutexLock lock(&mu_);
  programs_[program.get()] = times.get();
  times_->push_back(std::move(times));
  return program;
}

void NodeTimer::Launch(device::StreamId stream, const device::LaunchArgs& args) {
  MutexLock lock(&mu_);
  Collect();
  NodeTimes* const times = programs_.at(args.program);
  std::deque<Sample>& samples = samples_[stream];
  samples.push_back({inner().Record(stream), nullptr, 0});
  for (int n = args.first; n <= args.last; ++n) {
    inner().Launch(stream, {args.program, args.bindings, n, n});
    samples.push_back({inner().Record(stream), times, static_cast<size_t>(n)});
  }
}

void NodeTimer::DestroyStream(device::StreamId stream) {
  inner().DestroyStream(stream);
  MutexLock lock(&mu_);
  Collect();
}

void NodeTimer::Collect() {
  for (auto& [stream, samples] : samples_) {
    while (!samples.empty()) {
      const device::EventState state = inner().Query(samples.front().event);
      if (!state.complete) break;
      const Sample& sample = samples.front();
      if (sample.times != nullptr) {
        sample.times->micros[sample.node].push_back(
            static_cast<double>((state.end - state.start).count()));
      }
      inner().Release(sample.event);
      samples.pop_front();
    }
  }
}

}  // namespace ebb::bench
