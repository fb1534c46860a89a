#include "perfmodel/calibrate.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"

namespace ebb::perfmodel {
namespace {

constexpr size_t kLeastInAll = 30;
constexpr size_t kLeastForLaw = 10;

}  // namespace

absl::StatusOr<Calibration> Calibrate(const Hardware& hardware, absl::Span<const OpSample> samples,
                                      absl::string_view device, int64_t least) {
  const std::vector<MeasuredWork> medians = SoloMedians(samples, device, least);
  if (medians.size() < kLeastInAll) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a calibration needs at least ", kLeastInAll, " kernels of different work, measured ",
        least, " times alone on '", Escaped(device), "'; there are ", medians.size()));
  }
  EBB_ASSIGN_OR_RETURN(const OpModel sheet, OpModel::Make(hardware));
  std::map<std::pair<Family, graph::DType>, std::vector<MeasuredWork>> groups;
  for (const MeasuredWork& one : medians) {
    groups[{one.work.family, one.work.dtype}].push_back(one);
  }
  OpModel::Laws laws;
  std::vector<LawReport> reports;
  for (const auto& [key, group] : groups) {
    LawReport report{.family = key.first, .dtype = key.second};
    report.samples = static_cast<int64_t>(group.size());
    if (group.size() >= kLeastForLaw) {
      EBB_ASSIGN_OR_RETURN(OpLaw law, OpLaw::Fit(hardware, group));
      report.fitted = true;
      report.mape = law.mape;
      laws[key] = std::move(law);
    }
    reports.push_back(report);
  }
  EBB_ASSIGN_OR_RETURN(OpModel model, OpModel::Make(hardware, std::move(laws)));
  return Calibration{std::move(model), std::move(reports)};
}

absl::StatusOr<Hardware> HardwareFromSamples(absl::string_view device, double multiprocessors,
                                             absl::Span<const OpSample> samples) {
  Hardware hardware{.key = std::string(device), .name = std::string(device)};
  hardware.multiprocessors = multiprocessors;
  for (const OpSample& sample : samples) {
    if (sample.device != device || sample.micros <= 0) continue;
    const double flops = sample.work.flops / sample.micros,
                 bytes = sample.work.bytes / sample.micros;
    if (IsProduct(sample.work.family)) {
      hardware.fp32_tflops = std::max(hardware.fp32_tflops, flops / 1e6);
    } else {
      hardware.bandwidth_gbs = std::max(hardware.bandwidth_gbs, bytes / 1e3);
    }
  }
  if (hardware.fp32_tflops > 0 && hardware.bandwidth_gbs > 0) return hardware;
  return absl::InvalidArgumentError(absl::StrCat("the peaks of '", Escaped(device),
                                                 "' need samples of products and of other work"));
}

}  // namespace ebb::perfmodel
