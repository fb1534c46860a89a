// The flags of `ebb-bench sharing`.
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "bench/commands.h"
#include "bench/sharing.h"
#include "bench/sharing_report.h"

namespace ebb::bench {
namespace {}  // namespace

absl::Status Sharing(const Args& args) {
  SharingOptions options;
  Args valued = args;
  options.sensitivity = std::erase(valued, "--sensitivity") > 0;
  EBB_ASSIGN_OR_RETURN(const Flags flags,
                       ParseFlags(valued, {"device", "jobs", "fraction", "batch", "constants",
                                           "models", "mixes", "of", "seed", "steps", "json"}));
  options.device = TextOf(flags, "device", options.device);
  options.constants = TextOf(flags, "constants", "");
  options.models = ListOf(flags, "models");
  EBB_ASSIGN_OR_RETURN(const int64_t jobs, NumberOf(flags, "jobs", options.jobs, 2, 8));
  options.jobs = static_cast<int>(jobs);
  EBB_ASSIGN_OR_RETURN(options.fraction, RealOf(flags, "fraction", options.fraction, 0.001, 1));
  if (flags.contains("batch")) {
    if (flags.contains("fraction")) {
      return absl::InvalidArgumentError("give --batch or --fraction, not both");
    }
    EBB_ASSIGN_OR_RETURN(options.batch, NumberOf(flags, "batch", 1, 1, 1 << 16));
  }
  const std::string of = TextOf(flags, "of", "distinct");
  if (of != "distinct" && of != "equal") {
    return absl::InvalidArgumentError(
        absl::StrCat("--of: '", of, "'; give distinct (models) or equal (jobs)"));
  }
  options.mixes = of == "equal" ? Mixes::kEqual : Mixes::kDistinct;
  EBB_ASSIGN_OR_RETURN(const int64_t most, NumberOf(flags, "mixes", 0, 0, 1000));
  options.most_mixes = static_cast<int>(most);
  EBB_ASSIGN_OR_RETURN(const int64_t seed, NumberOf(flags, "seed", 1, 0, INT64_MAX));
  options.seed = static_cast<uint64_t>(seed);
  EBB_ASSIGN_OR_RETURN(options.steps, NumberOf(flags, "steps", options.steps, 10, 100'000));
  EBB_ASSIGN_OR_RETURN(const SharingReport report,
                       MeasureSharing(options, [](const std::string& mix) {
                         std::fprintf(stderr, "%s ...\n", mix.c_str());
                       }));
  std::fputs(SharingTable(report).c_str(), stdout);
  return WriteJson(flags, SharingJson(report));
}

}  // namespace ebb::bench
