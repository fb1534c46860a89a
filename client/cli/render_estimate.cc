#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "client/cli/render.h"

namespace ebb::cli {
namespace {

std::string Size(int64_t bytes) { return FormatBytes(Bytes(bytes)); }

std::string Largest(bool has, int64_t batch) {
  if (!has) return "bound";
  return batch == 0 ? "none" : WithCommas(batch);
}

std::string StepTime(const v1::Estimate& estimate) {
  if (!estimate.has_step_time()) return "-";
  const double seconds = static_cast<double>(estimate.step_time().seconds()) +
                         1e-9 * static_cast<double>(estimate.step_time().nanos());
  return seconds < 1 ? absl::StrFormat("%.4g ms", seconds * 1e3)
                     : absl::StrFormat("%.4g s", seconds);
}

}  // namespace

std::string EstimateText(const v1::EstimateResponse& response) {
  std::vector<std::vector<std::string>> rows = {{""},
                                                {"batch size"},
                                                {"resident state"},
                                                {"staging"},
                                                {"step peak"},
                                                {"live peak"},
                                                {"host memory"},
                                                {"pool"},
                                                {"taken alone"},
                                                {"taken by two"},
                                                {"copies at once"},
                                                {"largest batch, alone"},
                                                {"largest batch, beside its equal"},
                                                {"largest batch, now"},
                                                {"step alone (predicted)"}};
  std::string verdicts;
  for (const v1::Estimate& estimate : response.estimates()) {
    size_t row = 0;
    for (const std::string& cell :
         {estimate.device(), WithCommas(estimate.batch_size()), Size(estimate.resident_bytes()),
          Size(estimate.staging_bytes()), Size(estimate.step_peak_bytes()),
          Size(estimate.live_peak_bytes()), Size(estimate.host_bytes()),
          Size(estimate.pool_bytes()), Size(estimate.alone_bytes()), Size(estimate.two_bytes()),
          WithCommas(estimate.copies()),
          Largest(estimate.has_largest_batch_alone(), estimate.largest_batch_alone()),
          Largest(estimate.has_largest_batch_beside_equal(), estimate.largest_batch_beside_equal()),
          Largest(estimate.has_largest_batch_now(), estimate.largest_batch_now()),
          StepTime(estimate)}) {
      rows[row++].push_back(cell);
    }
    absl::StrAppend(&verdicts, estimate.device(), ": ", estimate.text(), "\n");
  }
  return absl::StrCat(Table(rows), "\n", verdicts);
}

}  // namespace ebb::cli
