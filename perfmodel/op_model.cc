#include "perfmodel/op_model.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace ebb::perfmodel {
namespace {

// What data sheets are worth: measured kernels take half to thrice of it.
constexpr double kSheetLow = 0.6;
constexpr double kSheetHigh = 2.5;

absl::Status Check(const Work& work) {
  const bool negative =
      std::min({work.batch, work.m, work.n, work.k}) < 0 || work.flops < 0 || work.bytes < 0;
  if (!negative && std::isfinite(work.flops) && std::isfinite(work.bytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(ToString(work), ": sizes, FLOPs and bytes must be numbers from 0"));
}

}  // namespace

absl::StatusOr<OpModel> OpModel::Make(Hardware hardware, Laws laws) {
  for (const auto& [name, value] : {std::pair("multiprocessors", hardware.multiprocessors),
                                    std::pair("fp32_tflops", hardware.fp32_tflops),
                                    std::pair("bandwidth_gbs", hardware.bandwidth_gbs)}) {
    if (std::isfinite(value) && value > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("hardware '", Escaped(hardware.name),
                                                   "': ", name, " must be above 0, is ", value));
  }
  return OpModel(std::move(hardware), std::move(laws));
}

absl::StatusOr<Estimate> OpModel::Predict(const Work& work) const {
  if (absl::Status status = Check(work); !status.ok()) return status;
  if (work.flops == 0 && work.bytes == 0) return Estimate{.source = "no work"};
  if (const auto it = laws_.find({work.family, work.dtype}); it != laws_.end()) {
    Estimate estimate = it->second.Predict(hardware_, work);
    estimate.source = absl::StrCat(it->second.samples, " samples of ", hardware_.name);
    return estimate;
  }
  if (work.dtype == graph::DType::kF64) {
    return absl::UnimplementedError(
        absl::StrCat(ToString(work), ": nothing was measured of it on ", hardware_.name,
                     ", and data sheets as they are known here say nothing of f64"));
  }
  const double time = DataSheetTime(work, hardware_);
  const double floor = Roofline(work, PeakOf(work, hardware_));
  return Estimate{.median = time,
                  .low = std::max(floor, kSheetLow * time),
                  .high = kSheetHigh * time,
                  .in_hull = false,
                  .source = absl::StrCat("data sheet of ", hardware_.name)};
}

}  // namespace ebb::perfmodel
