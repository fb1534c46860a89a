#include "bench/sharing.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "model/zoo/zoo.h"

namespace ebb::bench {
namespace {

constexpr char kReference[] = "time sharing";
constexpr int kRandomMixes = 20;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  file.peek();  // a folder opens, but has no bytes
  if (!file && !file.eof()) {
    return absl::InvalidArgumentError(absl::StrCat("--constants: cannot read '", path, "'"));
  }
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

absl::StatusOr<device::SimProfile> Profile(const SharingOptions& options) {
  absl::string_view name = options.device;
  if (!absl::ConsumePrefix(&name, "sim:")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device: '", options.device, "' is not simulated; give sim:PROFILE"));
  }
  if (name.find('+') != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device: '", options.device,
                     "': both overlap models are measured; leave out what follows the +"));
  }
  EBB_ASSIGN_OR_RETURN(device::SimProfile profile, device::LoadSimProfile(std::string(name)));
  if (options.constants.empty()) return profile;
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.constants));
  return device::OverrideSimProfile(std::move(profile), text, options.constants);
}

absl::StatusOr<std::vector<MixJob>> JobsOf(const SharingOptions& options,
                                           const std::vector<std::string>& models,
                                           SharingBench& bench) {
  std::vector<MixJob> jobs;
  for (const std::string& model : models) {
    EBB_ASSIGN_OR_RETURN(const int64_t solo, bench.SoloBatch(model));
    const auto part =
        static_cast<int64_t>(std::floor(options.fraction * static_cast<double>(solo) + 1e-9));
    jobs.push_back({model, options.batch.value_or(part)});
  }
  return jobs;
}

// Every mix under every one of the policies, in both overlap models.
absl::StatusOr<std::vector<MixRow>> MeasureMixes(
    const SharingOptions& options, const std::vector<std::string>& policies, SharingBench& bench,
    const std::function<void(const std::string&)>& on_mix) {
  std::vector<MixRow> rows;
  for (const std::vector<std::string>& models : DrawMixes(options)) {
    MixRow row;
    EBB_ASSIGN_OR_RETURN(row.jobs, JobsOf(options, models, bench));
    on_mix(absl::StrJoin(models, " + "));
    for (const std::string& policy : policies) {
      for (size_t o = 0; o < kOverlapModels.size(); ++o) {
        EBB_ASSIGN_OR_RETURN(row.results[policy][o],
                             bench.Run(policy, kOverlapModels[o], row.jobs));
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

absl::StatusOr<AloneRow> MeasureAlone(const MixJob& job, SharingBench& bench) {
  AloneRow row{.job = job};
  EBB_ASSIGN_OR_RETURN(row.solo_batch, bench.SoloBatch(job.model));
  if (job.batch < 1 || job.batch > row.solo_batch) return row;
  EBB_ASSIGN_OR_RETURN(const Workload* work, bench.Work(job));
  row.resident = work->resident;
  row.peak = work->Peak();
  row.micros = work->alone_micros;
  row.fill = work->alone_held / static_cast<double>(work->Peak().count());
  EBB_ASSIGN_OR_RETURN(row.engine, bench.EngineAlone(job));
  return row;
}

absl::Status AddSensitivity(const std::function<void(const std::string&)>& on_mix,
                            SharingReport* report) {
  for (const auto& [key, field] :
       {std::pair("launch_us", &device::SimProfile::launch_us),
        std::pair("bandwidth_gbs", &device::SimProfile::bandwidth_gbs)}) {
    for (const double factor : {0.5, 2.0}) {
      device::SimProfile profile = report->profile;
      profile.*field *= factor;
      SensitivityRow row{.change = absl::StrCat(key, " x ", factor)};
      on_mix(row.change);
      SharingBench bench(profile, report->options.assumptions, report->options.steps);
      SharingReport changed{.options = report->options, .profile = profile};
      EBB_ASSIGN_OR_RETURN(changed.mixes,
                           MeasureMixes(report->options, {"ebb", kReference}, bench, on_mix));
      for (size_t o = 0; o < kOverlapModels.size(); ++o) {
        const PolicySummary summary = Summarize(changed, "ebb", o);
        row.gain[o] = summary.gain;
        row.least_gain[o] = summary.least_gain;
      }
      report->sensitivity.push_back(std::move(row));
    }
  }
  return absl::OkStatus();
}

}  // namespace

const std::vector<std::string>& SharingModels() {
  static const auto* const kModels =
      new std::vector<std::string>{"resnet50",     "vgg16",         "inception_v3",  "densenet121",
                                   "mobilenet_v2", "bert_base_128", "bert_base_384", "gpt2"};
  return *kModels;
}

std::vector<std::vector<std::string>> DrawMixes(const SharingOptions& options) {
  const std::vector<std::string>& models =
      options.models.empty() ? SharingModels() : options.models;
  std::vector<std::vector<std::string>> all;
  const auto jobs = static_cast<size_t>(options.jobs);
  if (options.mixes == Mixes::kEqual) {
    for (const std::string& model : models) all.emplace_back(jobs, model);
  } else if (jobs <= models.size()) {  // every choice, in order
    std::vector<bool> chosen(models.size(), false);
    std::fill_n(chosen.begin(), jobs, true);
    do {
      std::vector<std::string>& mix = all.emplace_back();
      for (size_t m = 0; m < models.size(); ++m) {
        if (chosen[m]) mix.push_back(models[m]);
      }
    } while (std::prev_permutation(chosen.begin(), chosen.end()));
  }
  const bool some = options.most_mixes > 0 || options.jobs > 2;
  const auto most = static_cast<size_t>(options.most_mixes > 0 ? options.most_mixes : kRandomMixes);
  if (!some || all.size() <= most) return all;
  std::mt19937_64 random(options.seed);  // the same draws everywhere
  for (size_t i = 0; i < most; ++i) std::swap(all[i], all[i + random() % (all.size() - i)]);
  all.resize(most);
  return all;
}

PolicySummary Summarize(const SharingReport& report, const std::string& policy, size_t overlap) {
  PolicySummary summary;
  std::map<std::string, double> engine;
  for (const AloneRow& row : report.alone) engine[row.job.model] = row.engine;
  double logs = 0, gain_logs = 0, engine_logs = 0;
  int compared = 0;
  for (const MixRow& row : report.mixes) {
    const auto it = row.results.find(policy);
    if (it == row.results.end()) continue;
    const MixResult& result = it->second[overlap];
    if (!result.infeasible.empty()) {
      ++summary.infeasible;
      continue;
    }
    const bool first = summary.mixes++ == 0;
    const auto least = [&](double* of, double value) {
      *of = first ? value : std::min(*of, value);
    };
    logs += std::log(result.Sum());
    double over_engine = 0;
    for (size_t j = 0; j < row.jobs.size(); ++j) {
      over_engine += result.progress[j] / engine[row.jobs[j].model];
    }
    engine_logs += std::log(over_engine);
    least(&summary.min, result.Sum());
    summary.max = std::max(summary.max, result.Sum());
    least(&summary.worst_share, result.Worst());
    least(&summary.least_steps, result.least_steps);
    summary.pool_use += result.pool_use;
    summary.concurrent += result.concurrent;
    summary.dropped_steps += result.dropped_steps;
    const MixResult& reference = row.results.at(kReference)[overlap];
    if (!reference.infeasible.empty()) continue;
    const double gain = result.Sum() / reference.Sum();
    summary.least_gain = compared++ == 0 ? gain : std::min(summary.least_gain, gain);
    gain_logs += std::log(gain);
  }
  if (summary.mixes == 0) return summary;
  summary.geomean = std::exp(logs / summary.mixes);
  if (!engine.empty()) summary.over_engine = std::exp(engine_logs / summary.mixes);
  summary.pool_use /= summary.mixes;
  summary.concurrent /= summary.mixes;
  if (compared > 0) summary.gain = std::exp(gain_logs / compared);
  return summary;
}

absl::StatusOr<SharingReport> MeasureSharing(
    const SharingOptions& options, const std::function<void(const std::string&)>& on_mix) {
  EBB_ASSIGN_OR_RETURN(device::SimProfile profile, Profile(options));
  for (const std::string& model : options.models) {
    EBB_RETURN_IF_ERROR(Annotate(model::BuildZooModel(model, 1).status(), "--models"));
  }
  if (DrawMixes(options).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--jobs: there are fewer than ", options.jobs,
                     " models; give more --models, or --of equal for jobs of one model"));
  }
  SharingBench bench(profile, options.assumptions, options.steps);
  SharingReport report{.options = options, .profile = profile, .pool = bench.pool()};
  EBB_ASSIGN_OR_RETURN(report.mixes, MeasureMixes(options, SharingPolicies(), bench, on_mix));
  std::set<std::string> seen;
  for (const MixRow& row : report.mixes) {
    for (const MixJob& job : row.jobs) {
      if (!seen.insert(job.model).second) continue;
      EBB_ASSIGN_OR_RETURN(report.alone.emplace_back(), MeasureAlone(job, bench));
    }
  }
  if (options.sensitivity) EBB_RETURN_IF_ERROR(AddSensitivity(on_mix, &report));
  return report;
}

}  // namespace ebb::bench
