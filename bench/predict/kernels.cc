// Kernels: laws calibrated on some of a GPU's measured kernels, beside all others, larger ones and
// other GPUs.
#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/status.h"
#include "bench/predict/groups.h"
#include "bench/tables.h"
#include "perfmodel/calibrate.h"
#include "perfmodel/import_samples.h"

namespace ebb::bench {
namespace {

using perfmodel::Hardware;
using perfmodel::MeasuredWork;
using perfmodel::OpLaw;
using perfmodel::OpSample;
using Kernels = std::vector<MeasuredWork>;

constexpr uint64_t kSeed = 1;
// The coverage of nominal 80 % intervals.
constexpr double kLeastCoverage = 72, kMostCoverage = 90;

struct Gpu {
  const char* name;  // of rows
  const char* file;
  const char* device;  // as the driver says
};
constexpr Gpu kA100 = {"A100", "NVIDIA_A100-PCIE-40GB", "NVIDIA A100-PCIE-40GB"};
constexpr Gpu kA100Large = {"A100-80", "NVIDIA_A100_80GB_PCIe", "NVIDIA A100 80GB PCIe"};
constexpr Gpu kV100 = {"V100", "Tesla_V100-PCIE-32GB", "Tesla V100-PCIE-32GB"};
constexpr Gpu kT4 = {"T4", "Tesla_T4", "Tesla T4"};
constexpr Gpu kP4 = {"P4", "Tesla_P4", "Tesla P4"};
constexpr Gpu kP100 = {"P100", "Tesla_P100-PCIE-16GB", "Tesla P100-PCIE-16GB"};
constexpr Gpu kH100 = {"H100", "", "NVIDIA H100 80GB HBM3"};
constexpr Gpu kL4 = {"L4", "", "NVIDIA L4"};

absl::StatusOr<Kernels> KernelsOf(const std::string& path, const Gpu& gpu) {
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadTable(path));
  EBB_ASSIGN_OR_RETURN(const std::vector<OpSample> samples, perfmodel::NeuSightSamples(text, path));
  return SoloMedians(samples, gpu.device);
}

absl::StatusOr<Kernels> Measured(const std::string& data, absl::string_view op, const Gpu& gpu) {
  return KernelsOf(absl::StrCat(data, "/kernels/neusight/train/", op, "/", gpu.file, ".csv.gz"),
                   gpu);
}
absl::StatusOr<Kernels> Larger(const std::string& data, absl::string_view op, const Gpu& gpu) {
  return KernelsOf(absl::StrCat(data, "/kernels/neusight/test/", op, ".csv.gz"), gpu);
}

// The first `count` in a drawn order, and the others.
std::pair<Kernels, Kernels> Divide(const Kernels& all, size_t count, uint64_t seed) {
  std::vector<std::pair<uint32_t, size_t>> order;
  for (size_t i = 0; i < all.size(); ++i) {
    order.emplace_back(Philox({static_cast<uint32_t>(i), 7, 0, 0}, PhiloxKeyFrom(seed))[0], i);
  }
  std::sort(order.begin(), order.end());
  std::pair<Kernels, Kernels> parts;
  for (size_t i = 0; i < order.size(); ++i) {
    (i < count ? parts.first : parts.second).push_back(all[order[i].second]);
  }
  return parts;
}

void Test(const OpLaw& law, const Hardware& hardware, const Kernels& kernels,
          std::vector<Predicted>* tested) {
  for (const MeasuredWork& one : kernels) {
    const perfmodel::Estimate told = law.Predict(hardware, one.work);
    tested->push_back({one.micros, told.median, told.low, told.high});
  }
}

struct Question {
  const char* op;
  const Gpu& gpu;
  std::optional<double> gate = {}, baseline = {};
  std::optional<double> large_gate = {}, large_baseline = {};
};

PredictRow CoverageRow(const std::string& name, const std::vector<Predicted>& tested) {
  PredictRow row = RowOf(name, tested);
  row.value = *row.coverage80;
  row.gate = kLeastCoverage, row.high_gate = kMostCoverage, row.at_least = true;
  return row;
}

// Calibrated on 1000 kernels of one op, tested on the others and on larger ones.
absl::Status AddProducts(const std::string& data, const Question& ask,
                         std::vector<Predicted>* covered, std::vector<PredictRow>* rows) {
  EBB_ASSIGN_OR_RETURN(const Hardware hardware, perfmodel::FindHardware(ask.gpu.device));
  EBB_ASSIGN_OR_RETURN(const Kernels all, Measured(data, ask.op, ask.gpu));
  EBB_ASSIGN_OR_RETURN(const Kernels larger, Larger(data, ask.op, ask.gpu));
  for (const size_t count : {size_t{1000}, size_t{100}}) {
    const auto [seen, unseen] = Divide(all, count, kSeed);
    EBB_ASSIGN_OR_RETURN(const OpLaw law, OpLaw::Fit(hardware, seen));
    std::vector<Predicted> same, large;
    Test(law, hardware, unseen, &same);
    Test(law, hardware, larger, &large);
    const std::string name = absl::StrCat(ask.op, " ", ask.gpu.name, ", ", count, " samples");
    const bool many = count == 1000;
    const std::optional<double> none;
    rows->push_back(RowOf(name, same, many ? ask.gate : none, many ? ask.baseline : none));
    rows->push_back(RowOf(absl::StrCat(name, ", large"), large, many ? ask.large_gate : none,
                          many ? ask.large_baseline : none));
    if (many && ask.gate.has_value()) {
      rows->push_back(CoverageRow(absl::StrCat(name, ": coverage"), same));
      covered->insert(covered->end(), same.begin(), same.end());
    }
  }
  return absl::OkStatus();
}

// Several ops of one family; in-distribution alone, or the larger ones too.
absl::Status AddFamily(const std::string& data, const std::string& name,
                       const std::vector<std::string>& ops, const Gpu& gpu,
                       std::vector<PredictRow>* rows) {
  EBB_ASSIGN_OR_RETURN(const Hardware hardware, perfmodel::FindHardware(gpu.device));
  Kernels all;
  for (const std::string& op : ops) {
    EBB_ASSIGN_OR_RETURN(const Kernels some, Measured(data, op, gpu));
    all.insert(all.end(), some.begin(), some.end());
  }
  const auto [seen, unseen] = Divide(all, std::min<size_t>(1000, all.size() / 2), kSeed);
  EBB_ASSIGN_OR_RETURN(const OpLaw law, OpLaw::Fit(hardware, seen));
  std::vector<Predicted> tested;
  Test(law, hardware, unseen, &tested);
  rows->push_back(RowOf(absl::StrCat(name, " ", gpu.name, ", ", seen.size(), " samples"), tested));
  return absl::OkStatus();
}

// A GPU known by 30 kernels, drawn five times; what its data sheet says beside it.
absl::Status AddFewShots(const std::string& data, absl::string_view op, const Gpu& gpu,
                         std::vector<PredictRow>* rows) {
  EBB_ASSIGN_OR_RETURN(const Hardware hardware, perfmodel::FindHardware(gpu.device));
  EBB_ASSIGN_OR_RETURN(const Kernels all, Larger(data, op, gpu));
  std::vector<Predicted> tested, by_sheet;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const auto [seen, unseen] = Divide(all, 30, seed);
    EBB_ASSIGN_OR_RETURN(const OpLaw law, OpLaw::Fit(hardware, seen));
    Test(law, hardware, unseen, &tested);
  }
  EBB_ASSIGN_OR_RETURN(const perfmodel::OpModel sheet, perfmodel::OpModel::Make(hardware));
  for (const MeasuredWork& one : all) {
    EBB_ASSIGN_OR_RETURN(const perfmodel::Estimate told, sheet.Predict(one.work));
    by_sheet.push_back({one.micros, told.median, told.low, told.high});
  }
  rows->push_back(RowOf(absl::StrCat(op, " ", gpu.name, ", 30 samples (5 draws)"), tested));
  rows->push_back(RowOf(absl::StrCat(op, " ", gpu.name, ", data sheet"), by_sheet));
  return absl::OkStatus();
}

// Products of f16 in a transformer's layers.
absl::Status AddVidur(const std::string& data, absl::string_view gpu, const char* hardware_name,
                      std::vector<PredictRow>* rows) {
  const std::string path = absl::StrCat(data, "/kernels/vidur/", gpu, "/Llama-2-7b-hf.csv.gz");
  EBB_ASSIGN_OR_RETURN(const Hardware hardware, perfmodel::FindHardware(hardware_name));
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadTable(path));
  EBB_ASSIGN_OR_RETURN(const std::vector<OpSample> samples,
                       perfmodel::VidurSamples(text, path, hardware.name));
  Kernels products;
  for (const MeasuredWork& one : SoloMedians(samples, hardware.name)) {
    if (IsProduct(one.work.family)) products.push_back(one);
  }
  const auto [seen, unseen] = Divide(products, 100, kSeed);
  EBB_ASSIGN_OR_RETURN(const OpLaw law, OpLaw::Fit(hardware, seen));
  std::vector<Predicted> tested;
  Test(law, hardware, unseen, &tested);
  rows->push_back(RowOf(absl::StrCat("linear f16 ", gpu, ", 100 samples (Vidur)"), tested));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<PredictRow>> KernelRows(const std::string& data) {
  std::vector<PredictRow> rows;
  std::vector<Predicted> covered;
  for (const Question& ask :
       {Question{"linear", kA100, 7.5, 5.9, 6.5, 4.6}, Question{"linear", kV100, 6.5, 5.0},
        Question{"bmm", kA100, 8, 6.3, 10.5, 8.4}, Question{"bmm", kV100, 8, 6.3},
        Question{"linear", kT4, {}, {}, 15, 13.0}, Question{"bmm", kT4}}) {
    EBB_RETURN_IF_ERROR(AddProducts(data, ask, &covered, &rows));
  }
  rows.push_back(CoverageRow("linear and bmm, A100 and V100: coverage", covered));
  for (const Gpu& gpu : {kA100Large, kV100, kT4, kP4, kP100}) {
    EBB_RETURN_IF_ERROR(AddFamily(data, "conv", {"conv"}, gpu, &rows));
  }
  for (const Gpu& gpu : {kA100, kV100, kT4, kP4, kP100}) {
    EBB_RETURN_IF_ERROR(AddFamily(
        data, "elementwise",
        {"add", "addu", "div", "divu", "gelu", "mul", "mulu", "pow", "powu", "relu", "tanh"}, gpu,
        &rows));
    EBB_RETURN_IF_ERROR(AddFamily(data, "softmax", {"softmax"}, gpu, &rows));
    EBB_RETURN_IF_ERROR(AddFamily(data, "layer norm", {"ln"}, gpu, &rows));
  }
  for (const Gpu& gpu : {kH100, kL4, kA100Large}) {
    for (const char* op : {"linear", "bmm"}) {
      EBB_RETURN_IF_ERROR(AddFewShots(data, op, gpu, &rows));
    }
  }
  EBB_RETURN_IF_ERROR(AddVidur(data, "a100", "a100-80gb", &rows));
  EBB_RETURN_IF_ERROR(AddVidur(data, "h100", "h100-80gb", &rows));
  return rows;
}

}  // namespace ebb::bench
