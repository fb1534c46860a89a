#include "daemon/wire_predict.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "daemon/supported.h"
#include "daemon/wire_check.h"
#include "perfmodel/fabric_file.h"
#include "perfmodel/op_model.h"

namespace ebb::daemon {
namespace {

using perfmodel::Comparison;
using perfmodel::Fabric;
using perfmodel::Hardware;
using perfmodel::OpModel;
using perfmodel::Strategy;

constexpr int kMostGpuCounts = 16, kMostHardware = 16, kMostStrategies = 256;
constexpr int64_t kMostGpus = 4096;
constexpr size_t kMostText = 2 << 20;  // of a fabric's or calibration's file
constexpr size_t kMostExtrapolated = 16;

absl::Status Invalid(absl::string_view message) { return absl::InvalidArgumentError(message); }

absl::Status CheckCounts(absl::string_view field, int64_t count, int64_t most) {
  if (count >= 1 && count <= most) return absl::OkStatus();
  return Invalid(absl::StrCat(field, " has ", count, " entries; give 1 to ", most));
}

absl::Status CheckText(absl::string_view field, absl::string_view text) {
  if (text.size() <= kMostText) return absl::OkStatus();
  return Invalid(absl::StrCat(field, " has ", text.size(), " bytes; at most ", kMostText));
}

absl::StatusOr<std::vector<OpModel>> CalibrationsOf(const v1::PredictRequest& request) {
  if (request.calibrations_size() > kMostHardware) {
    return Invalid(absl::StrCat("calibrations has ", request.calibrations_size(),
                                " entries; give at most ", kMostHardware));
  }
  std::vector<OpModel> models;
  for (int i = 0; i < request.calibrations_size(); ++i) {
    const std::string field = absl::StrCat("calibrations[", i, "]");
    EBB_RETURN_IF_ERROR(CheckText(field, request.calibrations(i)));
    EBB_ASSIGN_OR_RETURN(OpModel model, OpModel::Load(request.calibrations(i), field));
    models.push_back(std::move(model));
  }
  return models;
}

// A calibration of that name goes before the data sheet.
absl::StatusOr<PredictedHardware> HardwareOf(const std::string& name,
                                             const std::vector<OpModel>& calibrations,
                                             std::set<size_t>* used) {
  const auto sheet = perfmodel::FindHardware(name);
  for (size_t i = 0; i < calibrations.size(); ++i) {
    const Hardware& hardware = calibrations[i].hardware();
    if (hardware.key != (sheet.ok() ? sheet->key : name)) continue;
    used->insert(i);
    return PredictedHardware{.asked = name,
                             .hardware = hardware,
                             .ops = std::make_shared<OpModel>(calibrations[i]),
                             .kernels = absl::StrCat("calibration of ", hardware.key)};
  }
  if (!sheet.ok()) return Annotate(sheet.status(), "hardware");
  EBB_ASSIGN_OR_RETURN(OpModel model, OpModel::Make(*sheet));
  return PredictedHardware{.asked = name,
                           .hardware = *sheet,
                           .ops = std::make_shared<OpModel>(std::move(model)),
                           .kernels = absl::StrCat("data sheet of ", sheet->key)};
}

absl::Status ReadHardware(const v1::PredictRequest& request, PredictAsked* asked) {
  EBB_RETURN_IF_ERROR(CheckCounts("hardware", request.hardware_size(), kMostHardware));
  const int prices = request.price_per_gpu_hour_size();
  if (prices > 1 && prices != request.hardware_size()) {
    return Invalid(absl::StrCat("price_per_gpu_hour has ", prices, " entries for ",
                                request.hardware_size(),
                                " kinds of hardware; give one for all or one for each"));
  }
  for (const double price : request.price_per_gpu_hour()) {
    EBB_RETURN_IF_ERROR(CheckNumber("price_per_gpu_hour", price, 0, 1e9));
  }
  EBB_ASSIGN_OR_RETURN(const std::vector<OpModel> calibrations, CalibrationsOf(request));
  std::set<size_t> used;
  for (int i = 0; i < request.hardware_size(); ++i) {
    EBB_ASSIGN_OR_RETURN(PredictedHardware one,
                         HardwareOf(request.hardware(i), calibrations, &used));
    if (prices > 0) one.price = request.price_per_gpu_hour(prices == 1 ? 0 : i);
    asked->hardware.push_back(std::move(one));
  }
  for (size_t i = 0; i < calibrations.size(); ++i) {
    if (used.contains(i)) continue;
    return Invalid(absl::StrCat("calibrations[", i, "] is of '",
                                Escaped(calibrations[i].hardware().key),
                                "', which hardware does not name; add it there"));
  }
  return absl::OkStatus();
}

absl::Status ReadFabrics(const v1::PredictRequest& request, PredictAsked* asked) {
  const int count = request.fabrics_size();
  if (count > 1 && count != request.hardware_size()) {
    return Invalid(absl::StrCat("fabrics has ", count, " entries for ", request.hardware_size(),
                                " kinds of hardware; give one for all or one for each"));
  }
  if (count == 0) return asked->gpus.back() > 1 ? NoFabric("fabrics") : absl::OkStatus();
  for (int i = 0; i < request.hardware_size(); ++i) {
    std::shared_ptr<const Fabric>& fabric = asked->hardware[static_cast<size_t>(i)].fabric;
    if (i > 0 && count == 1) {
      fabric = asked->hardware[0].fabric;
      continue;
    }
    EBB_ASSIGN_OR_RETURN(fabric,
                         FabricFromWire(request.fabrics(i), absl::StrCat("fabrics[", i, "]")));
  }
  return absl::OkStatus();
}

absl::Status ReadStrategies(const v1::PredictRequest& request, PredictAsked* asked) {
  if (request.strategies_size() > kMostStrategies) {
    return Invalid(absl::StrCat("strategies has ", request.strategies_size(),
                                " entries; give at most ", kMostStrategies));
  }
  if (request.strategies_size() == 1 && request.strategies(0) == "all") {
    asked->all_strategies = true;
    return absl::OkStatus();
  }
  for (const std::string& text : request.strategies()) {
    if (text == "all") return Invalid("strategies: 'all' stands alone; remove the others");
    const auto strategy = perfmodel::ParseStrategy(text);
    if (!strategy.ok()) return Annotate(strategy.status(), "strategies");
    for (const int64_t ranks : {strategy->data, strategy->tensor, strategy->pipeline}) {
      EBB_RETURN_IF_ERROR(CheckCount(absl::StrCat("strategies: '", Escaped(text), "': a part"),
                                     ranks, 1, kMostGpus));
    }
    if (!std::binary_search(asked->gpus.begin(), asked->gpus.end(), strategy->ranks())) {
      return Invalid(absl::StrCat("strategies: '", Escaped(text), "' takes ", strategy->ranks(),
                                  " GPUs, which gpus does not name; add that number"));
    }
    asked->strategies.push_back(*strategy);
  }
  return absl::OkStatus();
}

v1::StrategyReport::RankMemory ToWire(const perfmodel::MemoryFit& fit) {
  v1::StrategyReport::RankMemory wire;
  wire.set_params_bytes(fit.params);
  wire.set_gradient_bytes(fit.gradients);
  wire.set_optimizer_bytes(fit.optimizer);
  wire.set_activation_bytes(fit.activations);
  wire.set_working_bytes(fit.working);
  wire.set_bucket_bytes(fit.buckets);
  wire.set_fixed_bytes(fit.fixed);
  return wire;
}

v1::StrategyReport::Parts ToWire(const perfmodel::StepParts& parts) {
  v1::StrategyReport::Parts wire;
  wire.set_compute_us(parts.compute);
  wire.set_exposed_communication_us(parts.exposed_communication);
  wire.set_bubble_us(parts.bubble);
  wire.set_host_us(parts.host);
  wire.set_data_us(parts.data);
  wire.set_imbalance_us(parts.imbalance);
  return wire;
}

v1::PredictedTime ToWire(const perfmodel::Estimate& estimate) {
  v1::PredictedTime wire;
  wire.set_median_us(estimate.median);
  wire.set_low_us(estimate.low);
  wire.set_high_us(estimate.high);
  wire.set_in_hull(estimate.in_hull);
  wire.set_source(Escaped(estimate.source));
  return wire;
}

}  // namespace

absl::Status NoFabric(absl::string_view field) {
  return Invalid(absl::StrCat(field,
                              ": more than one GPU needs to know what joins them; give the name of "
                              "a known one (`ebb fabric show` lists them) or the text of a file"));
}

absl::StatusOr<std::shared_ptr<const Fabric>> FabricFromWire(const v1::Fabric& wire,
                                                             absl::string_view field) {
  if (wire.kind_case() == v1::Fabric::KIND_NOT_SET) return NoFabric(field);
  EBB_RETURN_IF_ERROR(CheckText(field, wire.file()));
  auto fabric = wire.has_file() ? perfmodel::ParseFabric(wire.file(), absl::StrCat(field, ".file"))
                                : perfmodel::FindFabric(wire.name());
  if (!fabric.ok()) return wire.has_file() ? fabric.status() : Annotate(fabric.status(), field);
  return std::make_shared<const Fabric>(*std::move(fabric));
}

absl::StatusOr<PredictAsked> AskedFromWire(const v1::PredictRequest& request) {
  EBB_RETURN_IF_ERROR(CheckKnown(request));
  PredictAsked asked;
  EBB_RETURN_IF_ERROR(CheckCounts("gpus", request.gpus_size(), kMostGpuCounts));
  for (const int64_t gpus : request.gpus()) {
    EBB_RETURN_IF_ERROR(CheckCount("gpus", gpus, 1, kMostGpus));
    asked.gpus.push_back(gpus);
  }
  std::sort(asked.gpus.begin(), asked.gpus.end());
  asked.gpus.erase(std::unique(asked.gpus.begin(), asked.gpus.end()), asked.gpus.end());
  EBB_RETURN_IF_ERROR(CheckCount("batch_size", request.batch_size(), 0, int64_t{1} << 31));
  EBB_RETURN_IF_ERROR(CheckCount("steps", request.steps(), 0));
  EBB_RETURN_IF_ERROR(CheckNumber("launch_us", request.launch_us(), 0, 1e6));
  EBB_RETURN_IF_ERROR(ReadHardware(request, &asked));
  EBB_RETURN_IF_ERROR(ReadStrategies(request, &asked));
  EBB_RETURN_IF_ERROR(ReadFabrics(request, &asked));
  return asked;
}

absl::StatusOr<std::vector<Strategy>> CandidatesOf(const PredictAsked& asked, int64_t gpus,
                                                   int64_t batch) {
  std::vector<Strategy> candidates;
  if (asked.all_strategies) candidates = perfmodel::StrategyGrid(gpus, batch);
  for (const Strategy& strategy : asked.strategies) {
    if (strategy.ranks() == gpus) candidates.push_back(strategy);
  }
  if (asked.strategies.empty() && !asked.all_strategies) candidates.push_back({.data = gpus});
  if (candidates.empty() && asked.all_strategies) {
    return Invalid(absl::StrCat("strategies: none of ", gpus, " GPUs divides a batch of ", batch,
                                "; give a batch_size that it divides"));
  }
  return candidates;
}

v1::StrategyReport ToWire(const perfmodel::StrategyReport& report) {
  v1::StrategyReport wire;
  wire.set_strategy(perfmodel::ToString(report.strategy));
  wire.set_gpus(report.strategy.ranks());
  wire.set_batch_size(report.batch);
  *wire.mutable_step() = ToWire(report.step);
  wire.set_samples_per_second(report.samples_per_second);
  if (report.efficiency) wire.set_efficiency(*report.efficiency);
  if (report.hours) wire.set_hours(*report.hours);
  if (report.cost) wire.set_cost(*report.cost);
  *wire.mutable_parts() = ToWire(report.parts);
  for (const perfmodel::MemoryFit& fit : report.memory) *wire.add_memory() = ToWire(fit);
  wire.set_fits(report.fits);
  wire.set_memory_text(Escaped(report.memory_text));
  wire.set_measured_share(report.measured_share);
  for (const perfmodel::PlanInput& input : report.extrapolated) {
    if (static_cast<size_t>(wire.extrapolated_size()) == kMostExtrapolated) break;
    v1::StrategyReport::Input* one = wire.add_extrapolated();
    one->set_what(Escaped(input.what));
    one->set_source(Escaped(input.source));
    one->set_median_us(input.median);
  }
  wire.set_bottleneck(Escaped(report.bottleneck));
  wire.set_relief(Escaped(report.relief));
  return wire;
}

v1::StrategyComparison ToWire(const Comparison& comparison) {
  v1::StrategyComparison wire;
  *wire.mutable_alone() = ToWire(comparison.alone);
  for (const auto& report : comparison.ranking) *wire.add_ranking() = ToWire(report);
  for (const Comparison::Refused& refused : comparison.refused) {
    v1::StrategyComparison::Refused* one = wire.add_refused();
    one->set_strategy(perfmodel::ToString(refused.strategy));
    one->set_why(Escaped(refused.why));
  }
  wire.set_expected_regret(comparison.expected_regret);
  return wire;
}

}  // namespace ebb::daemon
