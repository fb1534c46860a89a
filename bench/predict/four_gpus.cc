// Steps on four GPUs, from labels of one and curves of collectives: through the same strategies
// as everybody's. Nothing is fitted on what four GPUs took.
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "bench/predict/groups.h"
#include "bench/predict/labelled_model.h"
#include "bench/tables.h"
#include "perfmodel/curve_import.h"
#include "perfmodel/fabric.h"
#include "perfmodel/simulate.h"
#include "perfmodel/strategy.h"

namespace ebb::bench {
namespace {

using perfmodel::Curve;
using perfmodel::Fabric;
using perfmodel::Plan;
using perfmodel::Strategy;

constexpr char kModel[] = "gpt2_large-train-1024";
constexpr int64_t kBatch = 4;

struct Machine {
  const char* name;
  const char* measured;     // folder of four GPUs
  const char* labels;       // folder of one
  int64_t scaled_by;        // of LabelledModel::Read
  const char* collectives;  // folder of Vidur's curves
  const char* more;         // all-reduces that go before it, or null
};
constexpr Machine kMachines[] = {
    {"h100", "NVIDIA_H100_80GB_HBM3", "NVIDIA_H100_80GB_HBM3", 0, "h100_dgx", nullptr},
    // There are no labels of one A100-SXM4-40GB: those of the PCIe card with 80 GB stand in, with
    // the factor of batch 4, since its whole step at batch 1 was disturbed.
    {"a100-sxm from a100-pcie", "NVIDIA_A100-SXM4-40GB", "NVIDIA_A100_80GB_PCIe", kBatch,
     "a100_dgx", "vtrain/a100/AR_GPU4_1M_1024M_LUT"},
};
struct Case {
  const char* file;  // suffix of four GPUs' label
  const char* strategy;
};
constexpr Case kCases[] = {{"dp4", "dp4"}, {"tp4", "tp4"}, {"pp4_1", "pp4-gpipe"}};

absl::StatusOr<Fabric> FabricOf(const std::string& data, const Machine& machine) {
  std::vector<Curve> curves;
  const auto add = [&](const std::string& path, bool replaces) -> absl::Status {
    EBB_ASSIGN_OR_RETURN(const std::string text, ReadTable(path));
    EBB_ASSIGN_OR_RETURN(std::vector<Curve> read, perfmodel::ReadCurveTable(text, path));
    for (Curve& curve : read) {
      if (curve.nodes() != 1) continue;
      std::erase_if(curves, [&](const Curve& old) {
        return replaces && old.kind() == curve.kind() && old.ranks() == curve.ranks();
      });
      curves.push_back(std::move(curve));
    }
    return absl::OkStatus();
  };
  const std::string folder = absl::StrCat(data, "/collectives/vidur/", machine.collectives);
  EBB_RETURN_IF_ERROR(add(folder + "/all_reduce.csv.gz", false));
  EBB_RETURN_IF_ERROR(add(folder + "/send_recv.csv.gz", false));
  if (machine.more != nullptr) {
    EBB_RETURN_IF_ERROR(add(absl::StrCat(data, "/collectives/", machine.more), true));
  }
  return Fabric::Make(machine.collectives, std::move(curves));
}

absl::StatusOr<double> MeasuredMicros(const std::string& path) {
  EBB_ASSIGN_OR_RETURN(const std::string json, ReadTable(path));
  return LabelledMicros(json, path);
}

}  // namespace

absl::StatusOr<std::vector<PredictRow>> FourGpuRows(const std::string& data) {
  std::vector<PredictRow> rows;
  std::vector<Predicted> all;
  for (const Machine& machine : kMachines) {
    const std::string models = data + "/models/neusight/";
    EBB_ASSIGN_OR_RETURN(
        const LabelledModel model,
        LabelledModel::Read(models + machine.labels, kModel, {1, kBatch}, machine.scaled_by));
    EBB_ASSIGN_OR_RETURN(const Fabric fabric, FabricOf(data, machine));
    const perfmodel::StrategyInputs inputs{
        .steps = [&](int64_t batch, int64_t tensor) { return model.StepAt(batch, tensor); },
        .batch = kBatch,
        .ops = &model,
        .collectives = &fabric};
    for (const Case& one : kCases) {
      EBB_ASSIGN_OR_RETURN(const Strategy strategy, perfmodel::ParseStrategy(one.strategy));
      EBB_ASSIGN_OR_RETURN(const Plan plan, MakePlan(inputs, strategy));
      EBB_ASSIGN_OR_RETURN(const perfmodel::Step step, perfmodel::Simulate(plan.programs));
      EBB_ASSIGN_OR_RETURN(const double measured,
                           MeasuredMicros(absl::StrCat(models, machine.measured, "/", kModel, "-",
                                                       kBatch, "-", one.file, ".json")));
      all.push_back({measured, step.micros});
      rows.push_back(
          RowOf(absl::StrCat("gpt2-large ", one.strategy, " ", machine.name), {all.back()}));
    }
  }
  rows.insert(rows.begin(), RowOf("gpt2-large on 4 GPUs from labels of one", all, 12, 7.7));
  return rows;
}

}  // namespace ebb::bench
