#include "bench/report.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace ebb::bench {

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&out, "\\", std::string(1, c));
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<int>(c));
    } else {
      out.push_back(c);
    }
  }
  return out + "\"";
}

std::string SimulatedHead(const DeviceSpec& device, absl::string_view what) {
  return absl::StrFormat("%s: %s (sim:%s), overlap model %s\nconstants sha256:%s\n", what,
                         device.name, device.profile, device.overlap_model,
                         device.constants_sha256);
}

std::string SimulatedFields(const DeviceSpec& device) {
  return absl::StrFormat(
      "  \"simulated\": true,\n  \"profile\": %s,\n  \"overlap_model\": %s,\n"
      "  \"constants_sha256\": %s,\n",
      Quoted(device.profile), Quoted(device.overlap_model), Quoted(device.constants_sha256));
}

std::string CapacityTable(const CapacityReport& report) {
  std::string out = SimulatedHead(report.device);
  absl::StrAppendFormat(&out,
                        "pool %s\n"
                        "%d equal jobs, %d steps each; times are the simulated device's\n\n"
                        "%-16s %11s %9s %9s %11s %11s %9s %9s  %s\n",
                        FormatBytes(report.pool), report.jobs, report.steps, "model", "solo_batch",
                        "co_batch", "fraction", "of_ceiling", "concurrent", "progress", "turns",
                        "state");
  for (const CapacityRow& row : report.models) {
    absl::StrAppendFormat(&out, "%-16s %11d %9d %9.4f %11.4f %11.3f %9.4f %9.4f  %s\n", row.name,
                          row.solo_batch, row.co_batch, row.fraction, row.of_ceiling,
                          row.concurrent, row.progress, row.turns, row.levels);
  }
  absl::StrAppendFormat(
      &out,
      "\nfraction: min %.4f, mean %.4f\n"
      "ceiling = (M - resident state of all) / (M - that of one alone), M being the pool\n"
      "concurrent: share of the time in which two or more jobs executed\n"
      "progress: K x (time of a job alone at this batch) / (time of all K)\n"
      "turns: the same with one step in flight at a time, time sharing\n"
      "state: levels of the memory ladder that the jobs take; alone they may take them too.\n"
      "Without recompute and micro-batches, which raise the batch of a job alone as much.\n",
      report.MinFraction(), report.MeanFraction());
  return out;
}

std::string CapacityJson(const CapacityReport& report) {
  std::vector<std::string> models;
  for (const CapacityRow& row : report.models) {
    models.push_back(absl::StrFormat(
        "    {\"name\": %s, \"solo_batch\": %d, \"co_batch\": %d, \"fraction\": %.6f, "
        "\"of_ceiling\": %.6f, \"ceiling\": %.6f, \"resident_bytes\": %d, \"concurrent\": %.6f, "
        "\"progress\": %.6f, \"turns\": %.6f, \"levels\": %s}",
        Quoted(row.name), row.solo_batch, row.co_batch, row.fraction, row.of_ceiling, row.ceiling,
        row.resident.count(), row.concurrent, row.progress, row.turns, Quoted(row.levels)));
  }
  return absl::StrFormat(
      "{\n%s  \"pool_bytes\": %d,\n  \"jobs\": %d,\n  \"steps\": %d,\n"
      "  \"models\": [\n%s\n  ],\n  \"min\": %.6f,\n  \"mean\": %.6f\n}\n",
      SimulatedFields(report.device), report.pool.count(), report.jobs, report.steps,
      absl::StrJoin(models, ",\n"), report.MinFraction(), report.MeanFraction());
}

std::string DecisionsTable(const std::map<int64_t, double>& micros, int runs) {
  std::string out =
      absl::StrFormat("Scheduler: CPU time on this machine, median of %d runs\n\n%8s %14s\n", runs,
                      "jobs", "us a decision");
  for (const auto& [jobs, us] : micros) absl::StrAppendFormat(&out, "%8d %14.3f\n", jobs, us);
  return out;
}

std::string DecisionsJson(const std::map<int64_t, double>& micros, int runs) {
  const std::string entries =
      absl::StrJoin(micros, ", ", [](std::string* out, const std::pair<const int64_t, double>& of) {
        absl::StrAppendFormat(out, "\"%d\": %.4f", of.first, of.second);
      });
  return absl::StrFormat("{\n  \"runs\": %d,\n  \"us_per_decision\": {%s}\n}\n", runs, entries);
}

}  // namespace ebb::bench
