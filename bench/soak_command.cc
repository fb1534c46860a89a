#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "bench/commands.h"
#include "bench/report.h"
#include "bench/soak.h"

namespace ebb::bench {
namespace {

struct Figure {
  const char* name;
  int64_t value;
  const char* about;
};

std::vector<Figure> FaultFigures(const SoakReport& report) {
  const SoakFaults& faults = report.faults;
  return {
      {"deadlocks", faults.deadlocks, "nothing moved, but a job was neither final nor paused"},
      {"aborts", faults.aborts, "jobs that ended otherwise than they were made to"},
      {"starved", faults.starved, "mixes in which a job waited beyond the scheduler's bound"},
      {"ledger_errors", faults.ledger_errors, "sums that did not agree, or bytes not given back"},
      {"races", faults.races, "accesses to the same bytes that nothing ordered"},
  };
}

std::vector<Figure> CountFigures(const SoakReport& report) {
  const SoakCounts& counts = report.counts;
  return {
      {"jobs", counts.jobs, "jobs"},
      {"steps", counts.steps, "complete optimizer steps"},
      {"evaluating", counts.evaluating, "jobs that evaluate"},
      {"queued", counts.queued, "jobs seen waiting to be admitted"},
      {"updates", counts.updates, "live changes of weight, priority or stop"},
      {"pauses", counts.pauses, "pauses"},
      {"cancels", counts.cancels, "cancels"},
      {"cancels_in_step", counts.cancels_in_step, "of them of a job that held memory of a step"},
      {"failures", counts.failures, "jobs of which a launch was made to fail"},
      {"looks", counts.looks, "times at which the ledger was summed"},
      {"overlapping", counts.overlapping, "mixes with two steps at once in one lane"},
      {"deep", counts.deep, "mixes in which they were together larger than either's peak"},
      {"most_overtaken", counts.most_overtaken, "steps of others before a waiting job's"},
  };
}

std::string Table(const SoakReport& report) {
  std::string out = absl::StrFormat(
      "%s"
      "%d random mixes of seed %d, %.0f s of the device's time\n\n",
      SimulatedHead(report.device), report.mixes, report.seed, report.counts.device_seconds);
  for (const std::vector<Figure>& figures : {FaultFigures(report), CountFigures(report)}) {
    for (const Figure& figure : figures) {
      absl::StrAppendFormat(&out, "%-16s %9d  %s\n", figure.name, figure.value, figure.about);
    }
    out += "\n";
  }
  return out;
}

std::string Json(const SoakReport& report) {
  const auto fields = [](const std::vector<Figure>& figures, absl::string_view indent) {
    return absl::StrJoin(figures, ",\n", [&](std::string* out, const Figure& figure) {
      absl::StrAppendFormat(out, "%s\"%s\": %d", indent, figure.name, figure.value);
    });
  };
  return absl::StrFormat(
      "{\n%s  \"seed\": %d,\n  \"mixes\": %d,\n%s,\n  \"counts\": {\n%s,\n"
      "    \"device_seconds\": %.3f\n  }\n}\n",
      SimulatedFields(report.device), report.seed, report.mixes, fields(FaultFigures(report), "  "),
      fields(CountFigures(report), "    "), report.counts.device_seconds);
}

void Tell(int64_t number, const SoakMix& mix, const SoakOutcome& outcome, uint64_t seed) {
  std::printf("mix %d of seed %d; to run it alone: --seed %d --only %d\n%s%s\n",
              static_cast<int>(number), static_cast<int>(seed), static_cast<int>(seed),
              static_cast<int>(number), ToText(mix).c_str(),
              absl::StrJoin(outcome.log, "\n").c_str());
  for (const std::string& fault : outcome.faulty) std::printf("FAULT %s\n", fault.c_str());
  std::printf("\n");
}

}  // namespace

absl::Status SoakMixes(const Args& args) {
  EBB_ASSIGN_OR_RETURN(const Flags flags,
                       ParseFlags(args, {"device", "mixes", "seed", "only", "json"}));
  SoakOptions options;
  options.device = TextOf(flags, "device", options.device);
  EBB_ASSIGN_OR_RETURN(options.mixes, NumberOf(flags, "mixes", options.mixes, 1, 1'000'000));
  EBB_ASSIGN_OR_RETURN(const int64_t seed, NumberOf(flags, "seed", 1, 0, int64_t{1} << 31));
  options.seed = static_cast<uint64_t>(seed);
  if (flags.contains("only")) {
    EBB_ASSIGN_OR_RETURN(options.only, NumberOf(flags, "only", 0, 0, 1'000'000));
  }
  // Said before it runs: a check of the engine's own would end the process.
  const auto on_mix = [&](int64_t number) {
    std::fprintf(stderr, "\rmix %d ", static_cast<int>(number));
  };
  const auto on_end = [&](int64_t number, const SoakMix& mix, const SoakOutcome& outcome) {
    if (outcome.faults.Sum() > 0 || options.only) Tell(number, mix, outcome, options.seed);
  };
  EBB_ASSIGN_OR_RETURN(const SoakReport report, Soak(options, on_mix, on_end));
  std::fputs("\n", stderr);
  std::fputs(Table(report).c_str(), stdout);
  EBB_RETURN_IF_ERROR(WriteJson(flags, Json(report)));
  if (report.faults.Sum() == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(report.faults.Sum(), " faults; see above"));
}

}  // namespace ebb::bench
