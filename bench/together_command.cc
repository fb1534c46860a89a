#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "bench/commands.h"
#include "bench/report.h"
#include "bench/together.h"

namespace ebb::bench {
namespace {

double Over(double a, double b) { return b > 0 ? a / b : 0; }

std::string RunJson(const TogetherRun& run) {
  return absl::StrFormat(
      "{\"samples_per_s\": %.6g, \"concurrent\": %.6g, \"held_bytes\": %d, \"lane_bytes\": %d, "
      "\"resident_bytes\": %d, \"sha256\": [%s]}",
      run.samples, run.concurrent, run.held.count(), run.lanes.count(), run.resident.count(),
      absl::StrJoin(run.bits, ", ", [](std::string* out, const std::string& bits) {
        absl::StrAppend(out, Quoted(bits));
      }));
}

struct NamedPrecision {
  const char* name;
  graph::Precision precision;
};
constexpr NamedPrecision kPrecisions[] = {{"fp32", graph::Precision::kFp32},
                                          {"tf32", graph::Precision::kTf32},
                                          {"bf16", graph::Precision::kBf16}};

const char* NameOf(graph::Precision precision) {
  for (const NamedPrecision& row : kPrecisions) {
    if (row.precision == precision) return row.name;
  }
  return "?";
}

absl::StatusOr<graph::Precision> PrecisionOf(const std::string& name) {
  for (const NamedPrecision& row : kPrecisions) {
    if (row.name == name) return row.precision;
  }
  const auto names = [](std::string* out, const NamedPrecision& row) {
    absl::StrAppend(out, row.name);
  };
  return absl::InvalidArgumentError(absl::StrCat("--precision: '", name, "' is none; give one of ",
                                                 absl::StrJoin(kPrecisions, ", ", names)));
}

absl::StatusOr<TogetherOptions> OptionsOf(const Flags& flags) {
  TogetherOptions options;
  options.device = TextOf(flags, "device", "cpu");
  options.models = ListOf(flags, "models");
  if (options.models.empty()) {
    return absl::InvalidArgumentError("--models: give models of the zoo, or jobs of fidelity");
  }
  const std::string memory = TextOf(flags, "memory", "");
  const std::optional<Bytes> bytes = ParseBytes(memory);
  if (!memory.empty() && (!bytes || *bytes <= Bytes(0))) {
    return absl::InvalidArgumentError(
        absl::StrCat("--memory: '", memory, "' is no size; give bytes, or as 15GB or 512MiB"));
  }
  options.memory = bytes.value_or(Bytes(0));
  EBB_ASSIGN_OR_RETURN(options.precision, PrecisionOf(TextOf(flags, "precision", "fp32")));
  EBB_ASSIGN_OR_RETURN(const int64_t jobs, NumberOf(flags, "jobs", options.jobs, 2, 64));
  options.jobs = static_cast<int>(jobs);
  EBB_ASSIGN_OR_RETURN(options.steps, NumberOf(flags, "steps", options.steps, 5, 1'000'000));
  if (flags.count("batch") > 0) {
    EBB_ASSIGN_OR_RETURN(options.batch, NumberOf(flags, "batch", 1, 1, 1 << 16));
  }
  return options;
}

}  // namespace

std::string TogetherTable(const TogetherReport& report) {
  std::string out = report.device.kind == "sim" ? SimulatedHead(report.device)
                                                : absl::StrCat("On ", report.device.name, "\n");
  absl::StrAppendFormat(&out, "pool %s; %d equal jobs in %s, %d steps each; samples a second\n\n",
                        FormatBytes(report.pool), report.jobs, NameOf(report.precision),
                        report.steps);
  absl::StrAppendFormat(&out, "%-14s %6s %6s %6s %10s %10s %10s %10s %9s %10s\n", "model", "batch",
                        "solo", "co", "alone", "turns", "always", "together", "progress", "bits");
  for (const TogetherRow& row : report.models) {
    absl::StrAppendFormat(&out, "%-14s %6d %6d %6d %10.4g %10.4g %10.4g %10.4g %9.3f %10s\n",
                          row.model, row.batch, row.solo_batch, row.co_batch, row.alone.samples,
                          row.turns.samples, row.always.samples, row.together.samples,
                          Over(row.together.samples, row.alone.samples),
                          row.alone.bits.empty() ? "no values"
                          : row.SameBits()       ? "same"
                                                 : "DIFFER");
  }
  return out +
         "\nsolo, co: the largest batch of a job alone and of all at once (0: not looked for)\n"
         "turns: one step of any job in flight at a time; always: all at once, whatever it costs\n"
         "progress: samples a second together over those of a job alone\n";
}

std::string TogetherJson(const TogetherReport& report) {
  std::vector<std::string> rows;
  for (const TogetherRow& row : report.models) {
    rows.push_back(absl::StrFormat(
        "    {\"name\": %s, \"batch\": %d, \"solo_batch\": %d, \"co_batch\": %d, \"progress\": "
        "%.6g, \"over_turns\": %.6g, \"same_bits\": %s,\n     \"alone\": %s,\n     \"turns\": %s,\n"
        "     \"always\": %s,\n     \"together\": %s}",
        Quoted(row.model), row.batch, row.solo_batch, row.co_batch,
        Over(row.together.samples, row.alone.samples),
        Over(row.together.samples, row.turns.samples),
        row.alone.bits.empty() ? "null"
        : row.SameBits()       ? "true"
                               : "false",
        RunJson(row.alone), RunJson(row.turns), RunJson(row.always), RunJson(row.together)));
  }
  return absl::StrFormat(
      "{\n%s  \"device\": %s,\n  \"kind\": %s,\n  \"pool_bytes\": %d,\n  \"jobs\": %d,\n"
      "  \"precision\": %s,\n  \"steps\": %d,\n  \"equal_jobs\": [\n%s\n  ]\n}\n",
      report.device.kind == "sim" ? SimulatedFields(report.device) : "", Quoted(report.device.name),
      Quoted(report.device.kind), report.pool.count(), report.jobs,
      Quoted(NameOf(report.precision)), report.steps, absl::StrJoin(rows, ",\n"));
}

absl::Status Together(const Args& args) {
  EBB_ASSIGN_OR_RETURN(const Flags flags,
                       ParseFlags(args, {"device", "memory", "jobs", "models", "batch", "steps",
                                         "precision", "json"}));
  EBB_ASSIGN_OR_RETURN(const TogetherOptions options, OptionsOf(flags));
  EBB_ASSIGN_OR_RETURN(const TogetherReport report,
                       MeasureTogether(options, [](const std::string& run) {
                         std::fprintf(stderr, "%s ...\n", run.c_str());
                       }));
  std::fputs(TogetherTable(report).c_str(), stdout);
  EBB_RETURN_IF_ERROR(WriteJson(flags, TogetherJson(report)));
  for (const TogetherRow& row : report.models) {
    if (row.SameBits()) continue;
    return absl::InternalError(
        absl::StrCat(row.model, ": results are not the same bits as those of the job alone"));
  }
  return absl::OkStatus();
}

}  // namespace ebb::bench
