// The 8-rank DLRM step of PARAM's traces (V100-SXM2-32, 2023): replayed, and predicted on ranks of
// which nothing but the ops and the begin of the step is known.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "bench/predict/groups.h"
#include "bench/predict/tar.h"
#include "bench/tables.h"
#include "perfmodel/fabric.h"
#include "perfmodel/formats/collective_names.h"
#include "perfmodel/quantile.h"
#include "perfmodel/simulate.h"
#include "perfmodel/trace_program.h"

namespace ebb::bench {
namespace {

using namespace perfmodel;  // NOLINT(build/namespaces): one file of its nouns

constexpr absl::string_view kFabric = "v100-nvmesh";

struct Traces {
  std::vector<KinetoTrace> kineto;
  std::vector<ExecutionTrace> execution;
  std::vector<HostTimeline> timelines;

  size_t size() const { return timelines.size(); }
  double measured(size_t rank) const { return timelines[rank].device_end - timelines[rank].begin; }
  std::vector<RankTrace> ranks() const {
    std::vector<RankTrace> all;
    for (size_t rank = 0; rank < size(); ++rank) all.push_back({&kineto[rank], &timelines[rank]});
    return all;
  }
};

template <typename Trace, typename Read>
absl::StatusOr<std::vector<Trace>> ReadAll(const std::string& path, Read read) {
  EBB_ASSIGN_OR_RETURN(const std::string archive, ReadTable(path));
  const auto files = FilesOfTar(archive);
  if (!files.ok()) return Annotate(files.status(), path);
  std::vector<Trace> traces;
  for (const TarFile& file : *files) {
    auto trace = read(file.text);
    if (!trace.ok()) return Annotate(trace.status(), absl::StrCat(path, ", ", file.name));
    traces.push_back(*std::move(trace));
  }
  return traces;
}

absl::StatusOr<std::unique_ptr<Traces>> Load(const std::string& data) {
  const std::string folder = data + "/traces/param/";
  auto traces = std::make_unique<Traces>();
  EBB_ASSIGN_OR_RETURN(traces->kineto,
                       ReadAll<KinetoTrace>(folder + "dlrm_kineto.tar.gz", ReadKineto));
  EBB_ASSIGN_OR_RETURN(traces->execution, ReadAll<ExecutionTrace>(folder + "dlrm_pytorch_et.tar.gz",
                                                                  ReadExecutionTrace));
  if (traces->kineto.size() != traces->execution.size()) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": ", traces->kineto.size(),
                                                   " Kineto traces, ", traces->execution.size(),
                                                   " execution traces"));
  }
  for (size_t rank = 0; rank < traces->kineto.size(); ++rank) {
    EBB_ASSIGN_OR_RETURN(HostTimeline timeline,
                         TimelineOf(traces->kineto[rank], &traces->execution[rank]));
    traces->timelines.push_back(std::move(timeline));
  }
  return traces;
}

// Each rank's device end from its own begin.
absl::StatusOr<std::vector<double>> StepsOf(const TracedPrograms& programs) {
  EBB_ASSIGN_OR_RETURN(const Step step, Simulate(programs.ranks));
  std::vector<double> steps;
  for (size_t rank = 0; rank < programs.ranks.size(); ++rank) {
    std::vector<double> ends;
    for (const TaskTimes& task : step.ranks[rank].tasks) ends.push_back(task.end);
    steps.push_back(DeviceEnd(programs.ranks[rank], ends, programs.begins[rank]));
  }
  return steps;
}

absl::StatusOr<PredictRow> ReplayRow(const Traces& traces) {
  EBB_ASSIGN_OR_RETURN(const TracedPrograms programs, ReplayOf(traces.ranks()));
  EBB_ASSIGN_OR_RETURN(const std::vector<double> steps, StepsOf(programs));
  std::vector<Predicted> tested;
  double worst = 0;
  for (size_t rank = 0; rank < traces.size(); ++rank) {
    tested.push_back({.measured = traces.measured(rank), .median = steps[rank]});
    worst = std::max(worst, 100 * std::abs(steps[rank] / traces.measured(rank) - 1));
  }
  PredictRow row = RowOf("DLRM 8 x V100 replay, launches given: worst rank", tested, 1.0);
  row.value = worst;
  return row;
}

// What the device's tasks take, learned from some ranks: the mean of those of one name.
class DeviceTimes {
 public:
  explicit DeviceTimes(absl::Span<const KinetoTrace* const> traces) {
    std::map<std::string, std::vector<double>> values;
    for (const KinetoTrace* trace : traces) {
      for (const KinetoEvent& event : trace->events) {
        if (event.on_device()) values[event.name].push_back(event.micros);
      }
    }
    for (auto& [name, of_name] : values) micros_[name] = FilteredMean(std::move(of_name));
  }
  absl::StatusOr<double> Of(const std::string& name) const {
    const auto it = micros_.find(name);
    if (it == micros_.end()) return absl::NotFoundError(absl::StrCat("no time of ", name));
    return it->second;
  }

 private:
  std::map<std::string, double> micros_;
};

absl::StatusOr<double> TransferOf(const Fabric& fabric, const TracedCollective& traced) {
  Collective collective{.ranks = traced.ranks, .bytes = traced.bytes};
  EBB_ASSIGN_OR_RETURN(collective.kind, ParseCollectiveName(traced.name));
  EBB_ASSIGN_OR_RETURN(const Estimate estimate, fabric.Predict(collective));
  return estimate.median;
}

// The steps of all ranks, with host and device times of `learned` ones and collectives of none.
absl::StatusOr<std::vector<double>> PredictFrom(const Traces& traces,
                                                absl::Span<const size_t> learned) {
  std::vector<const HostTimeline*> timelines;
  std::vector<const KinetoTrace*> kineto;
  for (const size_t rank : learned) {
    timelines.push_back(&traces.timelines[rank]);
    kineto.push_back(&traces.kineto[rank]);
  }
  EBB_ASSIGN_OR_RETURN(const HostTimes host, HostTimes::Learn(timelines));
  EBB_ASSIGN_OR_RETURN(const Fabric fabric, FindFabric(kFabric));
  const DeviceTimes device(kineto);
  EBB_ASSIGN_OR_RETURN(TracedPrograms programs, ProgramsOf(traces.ranks(), host));
  for (RankProgram& program : programs.ranks) {
    for (Task& task : program.tasks) {
      if (task.host_waits) continue;
      if (task.collective >= 0) {
        EBB_ASSIGN_OR_RETURN(task.micros,
                             TransferOf(fabric, programs.collectives[task.collective]));
      } else {
        EBB_ASSIGN_OR_RETURN(task.micros, device.Of(task.name));
      }
    }
  }
  return StepsOf(programs);
}

// The longest of a rank's streams, if nothing ever waited.
double SummedKernels(const KinetoTrace& trace) {
  std::map<int, double> of_stream;
  for (const KinetoEvent& event : trace.events) {
    if (event.on_device()) of_stream[event.stream] += event.micros;
  }
  double longest = 0;
  for (const auto& [stream, micros] : of_stream) longest = std::max(longest, micros);
  return longest;
}

// Even ranks learn for odd ones and odd for even ones, so that each is predicted once.
absl::StatusOr<std::vector<PredictRow>> LearnedRows(const Traces& traces) {
  std::vector<Predicted> tested, copied, aligned, summed;
  for (size_t parity = 0; parity < 2; ++parity) {
    std::vector<size_t> learned;
    std::vector<double> steps, ends;
    for (size_t rank = parity; rank < traces.size(); rank += 2) {
      learned.push_back(rank);
      steps.push_back(traces.measured(rank));
      ends.push_back(traces.timelines[rank].device_end);
    }
    EBB_ASSIGN_OR_RETURN(const std::vector<double> predicted, PredictFrom(traces, learned));
    for (size_t rank = 1 - parity; rank < traces.size(); rank += 2) {
      const double measured = traces.measured(rank);
      tested.push_back({.measured = measured, .median = predicted[rank]});
      copied.push_back({.measured = measured, .median = perfmodel::MedianOf(steps)});
      aligned.push_back({.measured = measured,
                         .median = perfmodel::MedianOf(ends) - traces.timelines[rank].begin});
      summed.push_back({.measured = measured, .median = SummedKernels(traces.kineto[rank])});
    }
  }
  const double copy = RowOf("", copied).mape;
  return std::vector<PredictRow>{
      RowOf("DLRM 8 x V100, host times of the other ranks, collectives of a data sheet", tested,
            15.0, copy),
      RowOf("DLRM 8 x V100, copying the others' median end, begin given", aligned),
      RowOf("DLRM 8 x V100, the longest stream's kernels summed", summed)};
}

}  // namespace

absl::StatusOr<std::vector<PredictRow>> TraceRows(const std::string& data) {
  EBB_ASSIGN_OR_RETURN(const std::unique_ptr<Traces> traces, Load(data));
  EBB_ASSIGN_OR_RETURN(PredictRow replay, ReplayRow(*traces));
  EBB_ASSIGN_OR_RETURN(std::vector<PredictRow> rows, LearnedRows(*traces));
  rows.insert(rows.begin(), std::move(replay));
  return rows;
}

}  // namespace ebb::bench
