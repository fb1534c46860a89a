#include "bench/allocators/replay.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "bench/zoo_jobs.h"
#include "model/zoo/zoo.h"

namespace ebb::bench {
namespace {

struct Row {
  const char* name;
  std::unique_ptr<ReplayAllocator> (*make)();
};
constexpr Row kRows[] = {
    {"best_fit", MakeBestFit},
    {"bfc", MakeBfc},
    {"per_stream", MakePerStream},
    {"blocks_2mb", [] { return MakeBlocks(MiB(2)); }},
    {"blocks_64mb", [] { return MakeBlocks(MiB(64)); }},
    {"blocks_1gb", [] { return MakeBlocks(GiB(1)); }},
};

// Keeps the compiler from leaving out what computes `value`.
void Use(int64_t value) { asm volatile("" : : "r"(value) : "memory"); }

// What the engine does of a planned buffer: one addition, or two from the other end.
void ReplayPlan(const AllocationTrace& trace) {
  const int64_t size = trace.planned_peak.count();
  for (const TraceOp& op : trace.ops) {
    if (!op.birth) continue;
    const TraceBuffer& buffer = trace.buffers[static_cast<size_t>(op.buffer)];
    const int64_t offset = buffer.offset.count();
    Use(buffer.job == 0 ? offset : size - offset - buffer.bytes.count());
  }
}

Bytes ReplayThrough(const AllocationTrace& trace, ReplayAllocator& allocator,
                    std::vector<ReplayAllocator::Handle>& handles) {
  for (const TraceOp& op : trace.ops) {
    ReplayAllocator::Handle& handle = handles[static_cast<size_t>(op.buffer)];
    if (op.birth) {
      handle = allocator.Allocate(trace.buffers[static_cast<size_t>(op.buffer)]);
    } else {
      allocator.Free(handle);
    }
  }
  return allocator.peak();
}

// Nanoseconds an operation: the median of the runs.
double MedianNanos(int runs, size_t ops, const std::function<void()>& run) {
  std::vector<double> nanos;
  for (int r = 0; r < runs; ++r) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    nanos.push_back(took.count() / static_cast<double>(ops));
  }
  std::nth_element(nanos.begin(), nanos.begin() + runs / 2, nanos.end());
  return nanos[static_cast<size_t>(runs) / 2];
}

absl::StatusOr<TraceJob> JobAt(device::SimDevice& device, const std::string& model,
                               double fraction) {
  EBB_ASSIGN_OR_RETURN(const int64_t largest, Needs(device, model).LargestBatch(1));
  const auto batch = static_cast<int64_t>(std::floor(static_cast<double>(largest) * fraction));
  return TraceJob{model, std::max<int64_t>(1, batch)};
}

}  // namespace

const std::vector<std::string>& AllocatorNames() {
  static const auto& names = *[] {
    auto* all = new std::vector<std::string>{"ebb"};
    for (const Row& row : kRows) all->emplace_back(row.name);
    return all;
  }();
  return names;
}

std::unique_ptr<ReplayAllocator> MakeAllocator(const std::string& name) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.make();
  }
  EBB_CHECK(false);
}

TraceFigures Replay(const AllocationTrace& trace, int runs) {
  TraceFigures figures{.name = trace.name,
                       .ops = static_cast<int64_t>(trace.ops.size()),
                       .live_peak = trace.live_peak};
  std::vector<ReplayAllocator::Handle> handles(trace.buffers.size());
  for (const std::string& name : AllocatorNames()) {
    AllocatorFigures& of = figures.allocators[name];
    const bool planned = name == "ebb";
    of.peak = trace.planned_peak;
    of.ns_per_op = MedianNanos(runs, trace.ops.size(), [&] {
      if (planned) return ReplayPlan(trace);
      const auto allocator = MakeAllocator(name);
      of.peak = ReplayThrough(trace, *allocator, handles);
    });
    of.over_live = of.peak / trace.live_peak;
  }
  return figures;
}

absl::StatusOr<AllocatorReport> CompareAllocators(
    const AllocatorOptions& options, const std::function<void(const std::string&)>& on_trace) {
  EBB_ASSIGN_OR_RETURN(const auto device, OpenSimulated(options.device));
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& model : options.models) pairs.emplace_back(model, model);
  if (pairs.empty()) {
    for (const model::ZooEntry& entry : model::Zoo()) {
      pairs.emplace_back(std::string(entry.name), std::string(entry.name));
    }
    pairs.insert(
        pairs.end(),
        {{"resnet50", "bert_base_128"}, {"vgg16", "gpt2"}, {"densenet121", "mobilenet_v2"}});
  }
  for (const auto& [model, unused] : pairs) {  // a wrong name is an error before any work
    EBB_RETURN_IF_ERROR(Annotate(model::BuildZooModel(model, 1).status(), "--models"));
  }
  AllocatorReport report{.device = device->spec(), .options = options};
  for (const auto& [first, second] : pairs) {
    std::vector<TraceJob> jobs;
    for (const std::string& model : {first, second}) {
      EBB_ASSIGN_OR_RETURN(jobs.emplace_back(), JobAt(*device, model, options.fraction));
    }
    on_trace(absl::StrCat(first, " + ", second));
    auto trace = RecordTrace(options.device, jobs, options.steps);
    EBB_RETURN_IF_ERROR(Annotate(trace.status(), absl::StrCat(first, " + ", second)));
    if (first == second) trace->name = absl::StrCat("2 x ", first);
    report.traces.push_back(Replay(*trace, options.runs));
  }
  return report;
}

}  // namespace ebb::bench
