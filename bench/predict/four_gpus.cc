// Steps on four GPUs, from labels of one and curves of collectives: through the same strategies
// as everybody's. Nothing is fitted on what four GPUs took.
#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
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
    {"a100-sxm from a100-pcie", "NVIDIA_A100-SXM4-40GB", "NVIDIA_A100_80GB_PCIe", 4, "a100_dgx",
     "vtrain/a100/AR_GPU4_1M_1024M_LUT"},
};
struct Case {
  std::string file;   // without .json
  std::string model;  // "gpt2_large-train-1024"
  int64_t batch = 0;
  std::string kind;  // "dp4", "tp4", "pp4_1": the last with one micro-batch
};

// Files as gpt2_large-train-1024-4-dp4.json, in their order.
absl::StatusOr<std::vector<Case>> CasesOf(const std::string& folder) {
  std::vector<Case> cases;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string file = entry.path().stem().string();
    const std::vector<std::string> parts = absl::StrSplit(file, '-');
    Case one{.file = file};
    if (entry.path().extension() != ".json" || parts.size() != 5 ||
        !absl::StartsWith(file, "gpt") || parts[1] != "train" ||
        !absl::SimpleAtoi(parts[3], &one.batch)) {
      continue;
    }
    one.model = absl::StrCat(parts[0], "-", parts[1], "-", parts[2]);
    one.kind = parts[4];
    cases.push_back(std::move(one));
  }
  if (cases.empty()) return absl::NotFoundError(folder + "/gpt*-dp4.json");
  std::sort(cases.begin(), cases.end(),
            [](const Case& a, const Case& b) { return a.file < b.file; });
  return cases;
}

absl::StatusOr<Strategy> StrategyOf(const Case& one) {
  absl::string_view micro_batches = one.kind;
  if (!absl::ConsumePrefix(&micro_batches, "pp4_")) return perfmodel::ParseStrategy(one.kind);
  return perfmodel::ParseStrategy(absl::StrCat("pp4-gpipe-m", micro_batches));
}

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
  const std::string models = data + "/models/neusight/";
  for (const Machine& machine : kMachines) {
    EBB_ASSIGN_OR_RETURN(const std::vector<Case> cases, CasesOf(models + machine.measured));
    EBB_ASSIGN_OR_RETURN(const Fabric fabric, FabricOf(data, machine));
    for (const Case& one : cases) {
      EBB_ASSIGN_OR_RETURN(
          const LabelledModel model,
          LabelledModel::Read(models + machine.labels, one.model, machine.scaled_by));
      const perfmodel::StrategyInputs inputs{
          .steps = [&](int64_t batch, int64_t tensor) { return model.StepAt(batch, tensor); },
          .batch = one.batch,
          .ops = &model,
          .collectives = &fabric};
      EBB_ASSIGN_OR_RETURN(const Strategy strategy, StrategyOf(one));
      EBB_ASSIGN_OR_RETURN(const Plan plan, MakePlan(inputs, strategy));
      EBB_ASSIGN_OR_RETURN(const perfmodel::Step step, perfmodel::Simulate(plan.programs));
      EBB_ASSIGN_OR_RETURN(
          const double measured,
          MeasuredMicros(absl::StrCat(models, machine.measured, "/", one.file, ".json")));
      all.push_back({measured, step.micros});
      rows.push_back(RowOf(absl::StrCat(one.file, " ", machine.name), {all.back()}));
    }
  }
  rows.insert(rows.begin(), RowOf("GPT on 4 GPUs from labels of one", all, 12, 7.7));
  return rows;
}

}  // namespace ebb::bench
