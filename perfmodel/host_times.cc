#include "perfmodel/host_times.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "perfmodel/quantile.h"

namespace ebb::perfmodel {
namespace {

bool Waits(const HostPiece& piece) {
  return piece.act == HostAct::kAwaitLast || piece.act == HostAct::kAwaitAll;
}

// From the most to the least particular. A call that waits is none of those that do not.
std::array<std::string, 4> Keys(const HostPiece& piece) {
  const std::string part =
      absl::StrCat(static_cast<int>(piece.part), Waits(piece) ? "w" : "", "\n");
  const std::string op = absl::StrCat(part, piece.op, "\n");
  const std::string next = absl::StrCat(op, piece.next, "\n");
  return {absl::StrCat(next, piece.previous, "\n"), next, op, part};
}

}  // namespace

double FilteredMean(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double low = QuantileOf(values, 0.25), high = QuantileOf(values, 0.75);
  const double reach = 1.5 * (high - low);
  double sum = 0, count = 0;
  for (const double value : values) {
    if (value < low - reach || value > high + reach) continue;
    sum += value;
    ++count;
  }
  return sum / count;
}

absl::StatusOr<HostTimes> HostTimes::Learn(absl::Span<const HostTimeline* const> timelines) {
  absl::flat_hash_map<std::string, std::vector<double>> values;
  for (const HostTimeline* timeline : timelines) {
    for (const HostPiece& piece : timeline->pieces) {
      for (std::string& key : Keys(piece)) values[std::move(key)].push_back(piece.micros);
    }
  }
  if (values.empty()) return absl::InvalidArgumentError("no host times to learn from");
  HostTimes times;
  for (auto& [key, of_key] : values) {
    std::sort(of_key.begin(), of_key.end());
    // "Nw": most of the longer ones have waited.
    const bool waits = key.size() > 1 && key[1] == 'w';
    times.micros_[key] = waits ? QuantileOf(of_key, 0.25) : FilteredMean(of_key);
  }
  return times;
}

double HostTimes::Of(const HostPiece& piece) const {
  for (const std::string& key : Keys(piece)) {
    const auto found = micros_.find(key);
    if (found != micros_.end()) return found->second;
  }
  return 0;
}

}  // namespace ebb::perfmodel
