#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "bench/commands.h"
#include "bench/fidelity.h"
#include "bench/report.h"

namespace ebb::bench {
namespace {

std::string Millis(const std::vector<double>& micros) {
  return absl::StrJoin(micros, " ", [](std::string* out, double value) {
    absl::StrAppendFormat(out, "%.2f", value / 1000);
  });
}

std::string Table(const FidelityReport& report) {
  std::string out = absl::StrFormat(
      "cpu: %s, %d streams at once; pool %s, %g s a run, median of the quieter half of %d\n"
      "constants sha256:%s, %d kernels measured alone\n"
      "bandwidth %.1f GB/s, from a pair of equal jobs that ran %.3f times as long; "
      "interference %.3f, kernel gap %.2f us\n"
      "\nalone %-11s %10s %10s %10s %9s %6s\n",
      report.device.name, report.device.parallelism, FormatBytes(report.options.pool),
      report.options.seconds, report.options.repeats, report.profile.sha256,
      static_cast<int>(report.profile.kernels.size()), report.profile.bandwidth_gbs,
      report.self_slowdown, report.profile.interference, report.profile.kernel_gap_us, "",
      "step ms", "sim ms", "executing", "launches", "host");
  for (const SoloFigures& solo : report.solo) {
    absl::StrAppendFormat(&out, "%-17s %10.2f %10.2f %10.2f %9.1f %6.3f\n", solo.name,
                          solo.step_micros / 1000, solo.sim_micros / 1000, solo.busy_micros / 1000,
                          solo.launches, solo.host);
  }
  absl::StrAppendFormat(&out, "\n%-38s %8s %7s %-20s %-20s %7s %15s %7s\n", "together", "peak",
                        "exact", "step ms", "sim ms", "error", "progress", "error");
  for (const FidelityMix& mix : report.mixes) {
    absl::StrAppendFormat(&out, "%-38s %8s %7s %-20s %-20s %6.1f%% %7.3f %7.3f %6.1f%%\n",
                          absl::StrJoin(mix.jobs, " "), FormatBytes(mix.real.Peak()),
                          mix.BytesExact() ? "yes" : "NO", Millis(mix.real.step_micros),
                          Millis(mix.sim.step_micros), 100 * mix.StepError(), mix.progress_real,
                          mix.progress_sim, 100 * mix.ProgressError());
  }
  absl::StrAppendFormat(&out,
                        "\nlargest error: step time %.1f %%, summed progress %.1f %%; bytes %s\n",
                        100 * report.MaxStepError(), 100 * report.MaxProgressError(),
                        report.BytesExact() ? "exact" : "NOT exact");
  return out;
}

std::string Numbers(const std::vector<double>& values, double scale) {
  return absl::StrCat("[",
                      absl::StrJoin(values, ", ",
                                    [&](std::string* out, double value) {
                                      absl::StrAppendFormat(out, "%.6f", value * scale);
                                    }),
                      "]");
}

std::string BytesJson(const FidelityRun& run) {
  std::vector<std::string> jobs;
  for (const JobBytes& job : run.bytes) {
    jobs.push_back(absl::StrFormat(
        "{\"resident\": %d, \"staging\": %d, \"step_peak\": %d, \"held\": %d}",
        job.resident.count(), job.staging.count(), job.step_peak.count(), job.held.count()));
  }
  return absl::StrCat("[", absl::StrJoin(jobs, ", "), "]");
}

std::string MixJson(const FidelityMix& mix) {
  std::vector<std::string> names;
  std::vector<double> errors;
  for (size_t j = 0; j < mix.jobs.size(); ++j) {
    names.push_back(Quoted(mix.jobs[j]));
    errors.push_back(mix.sim.step_micros[j] / mix.real.step_micros[j] - 1);
  }
  return absl::StrFormat(
      "    {\"jobs\": [%s], \"bytes_exact\": %s, \"peak_bytes_real\": %d, \"peak_bytes_sim\": %d,\n"
      "     \"bytes_real\": %s,\n     \"bytes_sim\": %s,\n"
      "     \"held_together_real\": %d, \"held_together_sim\": %d,\n"
      "     \"step_ms_real\": %s, \"step_ms_sim\": %s, \"spread\": %s, "
      "\"others\": %.4f,\n"
      "     \"progress_real\": %.6f, \"progress_sim\": %.6f,\n"
      "     \"errors\": {\"step\": %s, \"progress\": %.6f}}",
      absl::StrJoin(names, ", "), mix.BytesExact() ? "true" : "false", mix.real.Peak().count(),
      mix.sim.Peak().count(), BytesJson(mix.real), BytesJson(mix.sim), mix.real.together.count(),
      mix.sim.together.count(), Numbers(mix.real.step_micros, 1e-3),
      Numbers(mix.sim.step_micros, 1e-3), Numbers(mix.spread, 1), mix.real.others,
      mix.progress_real, mix.progress_sim, Numbers(errors, 1),
      mix.progress_sim / mix.progress_real - 1);
}

std::string Json(const FidelityReport& report) {
  std::vector<std::string> solo, mixes;
  for (const SoloFigures& job : report.solo) {
    solo.push_back(absl::StrFormat(
        "    {\"name\": %s, \"step_ms\": %.6f, \"sim_ms\": %.6f, \"executing_ms\": %.6f, "
        "\"launches\": %.2f, \"host\": %.6f}",
        Quoted(job.name), job.step_micros / 1000, job.sim_micros / 1000, job.busy_micros / 1000,
        job.launches, job.host));
  }
  for (const FidelityMix& mix : report.mixes) mixes.push_back(MixJson(mix));
  return absl::StrFormat(
      "{\n  \"device\": %s,\n  \"parallelism\": %d,\n  \"pool_bytes\": %d,\n  \"seconds\": %g,\n"
      "  \"repeats\": %d,\n  \"seed\": %d,\n  \"constants_sha256\": %s,\n"
      "  \"bandwidth_gbs\": %.6f,\n  \"interference\": %.6f,\n  \"kernel_gap_us\": %.6f,\n  "
      "\"kernels\": %d,\n"
      "  \"alone\": [\n%s\n  ],\n  \"mixes\": [\n%s\n  ],\n"
      "  \"max_error_step\": %.6f,\n  \"max_error_progress\": %.6f,\n  \"bytes_exact\": %s\n}\n",
      Quoted(report.device.name), report.device.parallelism, report.options.pool.count(),
      report.options.seconds, report.options.repeats, report.options.seed,
      Quoted(report.profile.sha256), report.profile.bandwidth_gbs, report.profile.interference,
      report.profile.kernel_gap_us, static_cast<int>(report.profile.kernels.size()),
      absl::StrJoin(solo, ",\n"), absl::StrJoin(mixes, ",\n"), report.MaxStepError(),
      report.MaxProgressError(), report.BytesExact() ? "true" : "false");
}

absl::Status WriteProfile(const Flags& flags, const device::SimProfile& profile) {
  const std::string path = TextOf(flags, "profile", "");
  if (path.empty()) return absl::OkStatus();
  std::ofstream file(path, std::ios::binary);
  file << device::ToText(profile);
  file.close();
  if (!file.fail()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("--profile: cannot write '", path, "'"));
}

}  // namespace

absl::Status Fidelity(const Args& args) {
  EBB_ASSIGN_OR_RETURN(const Flags flags, ParseFlags(args, {"mixes", "seed", "seconds", "repeats",
                                                            "patience", "profile", "json"}));
  EBB_RETURN_IF_ERROR(CheckWritable(flags, "profile"));
  FidelityOptions options;
  EBB_ASSIGN_OR_RETURN(const int64_t mixes, NumberOf(flags, "mixes", options.mixes, 1, 50));
  EBB_ASSIGN_OR_RETURN(const int64_t seed, NumberOf(flags, "seed", 1, 0, INT64_MAX));
  EBB_ASSIGN_OR_RETURN(options.seconds, RealOf(flags, "seconds", options.seconds, 0.05, 60));
  EBB_ASSIGN_OR_RETURN(options.patience, RealOf(flags, "patience", options.patience, 0, 3600));
  EBB_ASSIGN_OR_RETURN(const int64_t repeats, NumberOf(flags, "repeats", options.repeats, 1, 99));
  options.mixes = static_cast<int>(mixes);
  options.seed = static_cast<uint64_t>(seed);
  options.repeats = static_cast<int>(repeats);
  EBB_ASSIGN_OR_RETURN(const FidelityReport report,
                       MeasureFidelity(options, [](const std::string& line) {
                         std::fprintf(stderr, "%s\n", line.c_str());
                       }));
  std::fputs(Table(report).c_str(), stdout);
  EBB_RETURN_IF_ERROR(WriteProfile(flags, report.profile));
  EBB_RETURN_IF_ERROR(WriteJson(flags, Json(report)));
  if (report.BytesExact()) return absl::OkStatus();
  return absl::InternalError("the simulated device takes other bytes than cpu; see above");
}

}  // namespace ebb::bench
