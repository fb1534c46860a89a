#include "bench/sharing_report.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "bench/report.h"

namespace ebb::bench {
namespace {

constexpr char kEbb[] = "ebb";

// The value, printed so that what differs looks different.
std::string Real(double value) { return absl::StrFormat("%.6g", value); }

std::vector<std::pair<std::string, double>> Assumptions(const SharingReport& report) {
  const SharingAssumptions& assumed = report.options.assumptions;
  return {{"host_gap", assumed.host_gap},
          {"paging_gbs", report.profile.bus_gbs * assumed.paging_of_bus},
          {"launch_queue", assumed.launch_queue}};
}

std::string BatchRule(const SharingReport& report) {
  const SharingOptions& options = report.options;
  if (options.batch) return absl::StrCat("batch ", *options.batch);
  return absl::StrCat("each at ", Real(options.fraction), " of its largest batch alone");
}

std::string NumberMap(const std::vector<std::pair<std::string, double>>& numbers) {
  const std::string entries = absl::StrJoin(
      numbers, ", ", [](std::string* out, const std::pair<std::string, double>& number) {
        absl::StrAppend(out, Quoted(number.first), ": ", Real(number.second));
      });
  return absl::StrCat("{", entries, "}");
}

std::string SummaryJson(const PolicySummary& summary) {
  return absl::StrFormat(
      "{\"geomean\": %.6f, \"min\": %.6f, \"max\": %.6f, \"mixes\": %d, \"infeasible\": %d, "
      "\"gain\": %.6f, \"least_gain\": %.6f, \"over_engine\": %.6f, \"worst_share\": %.6f, "
      "\"pool_use\": %.6f, "
      "\"concurrent\": %.6f, \"dropped_steps\": %d, \"least_steps\": %.2f}",
      summary.geomean, summary.min, summary.max, summary.mixes, summary.infeasible, summary.gain,
      summary.least_gain, summary.over_engine, summary.worst_share, summary.pool_use,
      summary.concurrent, summary.dropped_steps, summary.least_steps);
}

std::string ResultJson(const MixResult& result) {
  if (!result.infeasible.empty()) {
    return absl::StrCat("{\"infeasible\": ", Quoted(result.infeasible), "}");
  }
  const auto format = [](std::string* out, double part) {
    absl::StrAppendFormat(out, "%.6f", part);
  };
  return absl::StrFormat(
      "{\"sum\": %.6f, \"progress\": [%s], \"pool_use\": %.6f, \"busy\": %.6f, "
      "\"concurrent\": %.6f, \"dropped_steps\": %d, \"least_steps\": %.2f}",
      result.Sum(), absl::StrJoin(result.progress, ", ", format), result.pool_use, result.busy,
      result.concurrent, result.dropped_steps, result.least_steps);
}

std::string AloneJson(const AloneRow& row) {
  return absl::StrFormat(
      "    {\"model\": %s, \"solo_batch\": %d, \"batch\": %d, \"resident_bytes\": %d, "
      "\"peak_bytes\": %d, \"step_us\": %.3f, \"fill\": %.6f, \"engine\": %.6f}",
      Quoted(row.job.model), row.solo_batch, row.job.batch, row.resident.count(), row.peak.count(),
      row.micros, row.fill, row.engine);
}

std::string AloneTable(const SharingReport& report) {
  std::string out = absl::StrFormat("%-16s %10s %6s %10s %6s %10s %8s\n", "alone", "solo_batch",
                                    "batch", "peak", "fill", "step ms", "engine");
  for (const AloneRow& row : report.alone) {
    absl::StrAppendFormat(&out, "%-16s %10d %6d %10s %6.3f %10.2f %8.4f\n", row.job.model,
                          row.solo_batch, row.job.batch, FormatBytes(row.peak), row.fill,
                          row.micros / 1000, row.engine);
  }
  return out + "\n";
}

std::string MixJson(const MixRow& row) {
  std::vector<std::string> jobs, results;
  for (const MixJob& job : row.jobs) {
    jobs.push_back(
        absl::StrCat("{\"model\": ", Quoted(job.model), ", \"batch\": ", job.batch, "}"));
  }
  for (const auto& [policy, both] : row.results) {
    results.push_back(absl::StrCat("      ", Quoted(policy), ": {\"slots\": ", ResultJson(both[0]),
                                   ", \"vector\": ", ResultJson(both[1]), "}"));
  }
  return absl::StrCat("    {\"jobs\": [", absl::StrJoin(jobs, ", "), "], \"results\": {\n",
                      absl::StrJoin(results, ",\n"), "\n    }}");
}

std::vector<std::string> PoliciesOf(const SharingReport& report) {
  std::vector<std::string> policies;
  for (const std::string& policy : SharingPolicies()) {
    if (!report.mixes.empty() && report.mixes[0].results.contains(policy)) {
      policies.push_back(policy);
    }
  }
  return policies;
}

// What could not run, and why.
std::string InfeasibleText(const SharingReport& report) {
  std::string out;
  for (const MixRow& row : report.mixes) {
    std::vector<std::string> names;
    for (const MixJob& job : row.jobs) names.push_back(absl::StrCat(job.model, " ", job.batch));
    std::map<std::string, std::vector<std::string>> policies;  // by reason
    for (const auto& [policy, both] : row.results) {
      if (!both[0].infeasible.empty()) policies[both[0].infeasible].push_back(policy);
    }
    for (const auto& [reason, which] : policies) {
      const bool all = which.size() == row.results.size();
      absl::StrAppend(&out, "  ", absl::StrJoin(names, " + "), ": ", reason,
                      all ? "" : absl::StrCat(" (", absl::StrJoin(which, "; "), ")"), "\n");
    }
  }
  return out.empty() ? out : absl::StrCat("\ninfeasible, in no mean:\n", out);
}

std::string EngineText(const SharingReport& report) {
  if (Summarize(report, kEbb, 0).mixes == 0) return "";
  return absl::StrFormat(
      "\nebb over its own rates alone, which do not hide batch copies: slots %.3f, vector %.3f\n",
      Summarize(report, kEbb, 0).over_engine, Summarize(report, kEbb, 1).over_engine);
}

std::string SensitivityText(const SharingReport& report) {
  if (report.sensitivity.empty()) return "";
  std::string out = absl::StrFormat(
      "\nebb over time sharing, geomean (least), with other constants\n%-20s %18s %18s %6s\n", "",
      "slots", "vector", "sign");
  const auto row = [&out](const SensitivityRow& r) {
    absl::StrAppendFormat(&out, "%-20s  %8.4f (%6.4f)  %8.4f (%6.4f)   %s %s\n", r.change,
                          r.gain[0], r.least_gain[0], r.gain[1], r.least_gain[1],
                          r.gain[0] >= 1 ? "+" : "-", r.gain[1] >= 1 ? "+" : "-");
  };
  const PolicySummary slots = Summarize(report, kEbb, 0), vector = Summarize(report, kEbb, 1);
  row({"as given", {slots.gain, vector.gain}, {slots.least_gain, vector.least_gain}});
  for (const SensitivityRow& r : report.sensitivity) row(r);
  return out;
}

}  // namespace

std::string SharingTable(const SharingReport& report) {
  std::string out =
      absl::StrFormat("Simulated: %s (sim:%s), pool %s\nconstants sha256:%s\n", report.profile.name,
                      report.profile.key, FormatBytes(report.pool), report.profile.sha256);
  const auto format = [](std::string* text, const std::pair<std::string, double>& constant) {
    absl::StrAppend(text, constant.first, " ", Real(constant.second));
  };
  absl::StrAppend(&out, "  ", absl::StrJoin(device::ConstantsOf(report.profile), ", ", format),
                  "\nassumed of the baselines: ", absl::StrJoin(Assumptions(report), ", ", format),
                  "\n");
  absl::StrAppendFormat(&out, "%d mixes of %d jobs, %s; seed %d\n\n", report.mixes.size(),
                        report.options.jobs, BatchRule(report), report.options.seed);
  absl::StrAppend(&out, AloneTable(report));
  absl::StrAppendFormat(&out, "%-30s  %23s   %23s  %11s  %6s  %6s  %5s  %6s  %s\n", "", "slots",
                        "vector", "gain s / v", "share", "pool", "conc.", "drops", "runs");
  for (const std::string& policy : PoliciesOf(report)) {
    const PolicySummary s = Summarize(report, policy, 0), v = Summarize(report, policy, 1);
    absl::StrAppendFormat(
        &out,
        "%-30s  %7.3f (%6.3f..%6.3f)  %7.3f (%6.3f..%6.3f)  %5.3f %5.3f  %6.3f  %6.3f  %5.2f  %6d  "
        "%d/%d\n",
        policy, s.geomean, s.min, s.max, v.geomean, v.min, v.max, s.gain, v.gain,
        std::min(s.worst_share, v.worst_share), s.pool_use, s.concurrent,
        s.dropped_steps + v.dropped_steps, s.mixes, s.mixes + s.infeasible);
  }
  absl::StrAppend(
      &out,
      "\nalone: fill, mean over a step of the bytes that live / their peak; engine, its own rate "
      "alone\n"
      "over the one that progress is measured by, which hides the copy of the next batch\n"
      "progress of a mix: sum over jobs of rate / rate alone at the same batch; geomean "
      "(min..max)\n"
      "gain: over time sharing, geomean of the mixes that both can run\n"
      "share: the least progress of any job x jobs, in either overlap model\n"
      "pool, conc.: mean part of the pool held, and of the time with two jobs executing; slots\n"
      "drops: steps begun anew to break dead-locks; runs: mixes that it can run\n",
      EngineText(report), InfeasibleText(report), SensitivityText(report));
  return out;
}

std::string SharingJson(const SharingReport& report) {
  std::vector<std::string> policies, shares, pools, mixes, sensitivity, alone;
  double worst_share = 0, pool_use = 0;
  for (const std::string& policy : PoliciesOf(report)) {
    const PolicySummary s = Summarize(report, policy, 0), v = Summarize(report, policy, 1);
    policies.push_back(absl::StrCat("    ", Quoted(policy), ": {\"slots\": ", SummaryJson(s),
                                    ",\n      \"vector\": ", SummaryJson(v), "}"));
    if (policy == kEbb) {
      worst_share = std::min(s.worst_share, v.worst_share);
      pool_use = s.pool_use;
    }
  }
  for (const MixRow& row : report.mixes) mixes.push_back(MixJson(row));
  for (const AloneRow& row : report.alone) alone.push_back(AloneJson(row));
  for (const SensitivityRow& row : report.sensitivity) {
    sensitivity.push_back(absl::StrFormat(
        "    {\"change\": %s, \"slots\": {\"gain\": %.6f, \"least_gain\": %.6f}, \"vector\": "
        "{\"gain\": %.6f, \"least_gain\": %.6f}}",
        Quoted(row.change), row.gain[0], row.least_gain[0], row.gain[1], row.least_gain[1]));
  }
  return absl::StrFormat(
      "{\n  \"simulated\": true,\n  \"profile\": %s,\n  \"constants_sha256\": %s,\n"
      "  \"constants\": %s,\n  \"assumptions\": %s,\n  \"pool_bytes\": %d,\n  \"jobs\": %d,\n"
      "  \"batches\": %s,\n  \"seed\": %d,\n  \"steps\": %d,\n  \"alone\": [\n%s\n  ],\n"
      "  \"policies\": {\n%s\n  },\n  \"worst_share\": %.6f,\n  \"pool_use\": %.6f,\n"
      "  \"sensitivity\": [\n%s\n  ],\n  \"mixes\": [\n%s\n  ]\n}\n",
      Quoted(report.profile.key), Quoted(report.profile.sha256),
      NumberMap(device::ConstantsOf(report.profile)), NumberMap(Assumptions(report)),
      report.pool.count(), report.options.jobs, Quoted(BatchRule(report)), report.options.seed,
      report.options.steps, absl::StrJoin(alone, ",\n"), absl::StrJoin(policies, ",\n"),
      worst_share, pool_use, absl::StrJoin(sensitivity, ",\n"), absl::StrJoin(mixes, ",\n"));
}

}  // namespace ebb::bench
