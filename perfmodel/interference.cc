#include "perfmodel/interference.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_format.h"
#include "perfmodel/quantile.h"

namespace ebb::perfmodel {
namespace {

// alone = beside (1 - overlap) + beside overlap / slowdown, solved for the slowdown.
absl::StatusOr<double> SlowdownOf(const CoRun& run) {
  const bool times = std::isfinite(run.alone_us) && run.alone_us > 0 &&
                     std::isfinite(run.beside_us) && run.beside_us > 0;
  if (!times || !(run.overlap > 0 && run.overlap <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%g us alone and %g us beside another for a share of %g is no measurement",
                        run.alone_us, run.beside_us, run.overlap));
  }
  const double left = run.alone_us - run.beside_us * (1 - run.overlap);
  // It did no better than stand still while the other ran.
  if (left <= 0) return kMostSlowdown;
  return std::clamp(run.overlap * run.beside_us / left, 1.0, kMostSlowdown);
}

}  // namespace

absl::StatusOr<Interference> FitInterference(absl::Span<const CoRun> runs) {
  std::array<std::array<std::vector<double>, 3>, 3> seen;
  for (const CoRun& run : runs) {
    const auto slowdown = SlowdownOf(run);
    if (!slowdown.ok()) return slowdown.status();
    seen[static_cast<size_t>(run.slowed)][static_cast<size_t>(run.by)].push_back(*slowdown);
  }
  Interference fitted;
  for (size_t slowed = 0; slowed < 3; ++slowed) {
    for (size_t by = 0; by < 3; ++by) {
      if (!seen[slowed][by].empty()) fitted.slowdown[slowed][by] = MedianOf(seen[slowed][by]);
    }
  }
  return fitted;
}

}  // namespace ebb::perfmodel
