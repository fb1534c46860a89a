#include "bench/commands.h"

#include <cstdio>

#include "base/status.h"
#include "bench/capacity.h"
#include "bench/decisions.h"
#include "bench/report.h"

namespace ebb::bench {

absl::Status Capacity(const Args& args) {
  EBB_ASSIGN_OR_RETURN(const Flags flags,
                       ParseFlags(args, {"device", "jobs", "models", "steps", "json"}));
  CapacityOptions options;
  options.device = TextOf(flags, "device", options.device);
  options.models = ListOf(flags, "models");
  EBB_ASSIGN_OR_RETURN(const int64_t jobs, NumberOf(flags, "jobs", options.jobs, 2, 64));
  options.jobs = static_cast<int>(jobs);
  // With fewer steps the first job could end before the last has joined.
  EBB_ASSIGN_OR_RETURN(options.steps, NumberOf(flags, "steps", options.steps, 3, 1'000'000));
  EBB_ASSIGN_OR_RETURN(const CapacityReport report,
                       MeasureCapacity(options, [](const std::string& model) {
                         std::fprintf(stderr, "%s ...\n", model.c_str());
                       }));
  std::fputs(CapacityTable(report).c_str(), stdout);
  return WriteJson(flags, CapacityJson(report));
}

absl::Status Decisions(const Args& args) {
  EBB_ASSIGN_OR_RETURN(const Flags flags, ParseFlags(args, {"jobs", "runs", "json"}));
  EBB_ASSIGN_OR_RETURN(const std::vector<int64_t> jobs,
                       NumbersOf(flags, "jobs", {2, 10, 100, 1000}, 1, 100'000));
  EBB_ASSIGN_OR_RETURN(const int64_t runs, NumberOf(flags, "runs", 5, 1, 1000));
  EBB_ASSIGN_OR_RETURN(const auto micros, MeasureDecisions(jobs, static_cast<int>(runs)));
  std::fputs(DecisionsTable(micros, static_cast<int>(runs)).c_str(), stdout);
  return WriteJson(flags, DecisionsJson(micros, static_cast<int>(runs)));
}

}  // namespace ebb::bench
