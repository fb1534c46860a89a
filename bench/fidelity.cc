#include "bench/fidelity.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "bench/fidelity_calibration.h"
#include "bench/fidelity_jobs.h"

namespace ebb::bench {
namespace {

std::vector<std::vector<std::string>> DrawMixes(const FidelityOptions& options) {
  const std::vector<std::string> names = FidelityJobs();
  std::mt19937_64 random(options.seed);
  std::set<std::vector<std::string>> seen;
  std::vector<std::vector<std::string>> mixes;
  while (mixes.size() < static_cast<size_t>(options.mixes)) {
    std::vector<std::string> mix = names;
    std::shuffle(mix.begin(), mix.end(), random);
    mix.resize(mixes.size() % 4 == 3 ? 3 : 2);  // one in four of three jobs
    std::vector<std::string> sorted = mix;
    std::sort(sorted.begin(), sorted.end());
    const bool is_new = seen.insert(sorted).second;
    if (is_new || seen.size() >= 28) mixes.push_back(std::move(mix));
  }
  return mixes;
}

// Of each repeat; the figures become their medians.
void TakeMedians(const std::vector<FidelityRun>& runs, FidelityMix* mix) {
  mix->real = runs[0];
  for (size_t j = 0; j < mix->jobs.size(); ++j) {
    std::vector<double> micros;
    micros.reserve(runs.size());
    for (const FidelityRun& run : runs) micros.push_back(run.step_micros[j]);
    const auto [low, high] = std::minmax_element(micros.begin(), micros.end());
    mix->spread.push_back((*high - *low) / Median(micros));
    mix->real.step_micros[j] = Median(micros);
  }
  for (const FidelityRun& run : runs) {
    mix->real.together = std::max(mix->real.together, run.together);
    mix->real.others = std::max(mix->real.others, run.others);
  }
}

double Progress(const std::vector<double>& step_micros, const std::vector<double>& alone) {
  double sum = 0;
  for (size_t j = 0; j < step_micros.size(); ++j) sum += alone[j] / step_micros[j];
  return sum;
}

double Off(double predicted, double real) { return std::abs(predicted / real - 1); }

class Bench {
 public:
  Bench(const FidelityOptions& options, const std::function<void(const std::string&)>& on)
      : options_(options), on_(on) {}

  absl::StatusOr<FidelityReport> Run() {
    report_.options = options_;
    EBB_ASSIGN_OR_RETURN(const auto cpu, device::OpenDevice("cpu", {}));
    report_.device = cpu->spec();
    EBB_ASSIGN_OR_RETURN(Calibration calibration, Calibrate(options_, on_));
    report_.profile = std::move(calibration.profile);
    report_.self_slowdown = calibration.self_slowdown;
    report_.solo = std::move(calibration.solo);
    for (SoloFigures& solo : report_.solo) {
      alone_[solo.name] = solo.step_micros;
      EBB_ASSIGN_OR_RETURN(const FidelityRun sim, Simulate({solo.name}));
      alone_sim_[solo.name] = solo.sim_micros = sim.step_micros[0];
    }
    for (const std::vector<std::string>& jobs : DrawMixes(options_)) {
      EBB_RETURN_IF_ERROR(RunMix(jobs));
    }
    return std::move(report_);
  }

 private:
  std::vector<int64_t> StepsOf(const std::vector<std::string>& jobs) const {
    std::vector<int64_t> steps;
    steps.reserve(jobs.size());
    for (const std::string& job : jobs) {
      steps.push_back(10 + std::llround(options_.seconds * 1e6 / alone_.at(job)));
    }
    return steps;
  }
  absl::StatusOr<FidelityRun> Simulate(const std::vector<std::string>& jobs) const {
    EBB_ASSIGN_OR_RETURN(auto sim, OpenCalibrated(report_.profile));
    device::SimDevice* const clock = sim.get();
    return RunJobs(std::move(sim), clock, options_.pool, jobs, StepsOf(jobs));
  }
  absl::Status RunMix(const std::vector<std::string>& jobs) {
    FidelityMix mix{.jobs = jobs};
    std::vector<FidelityRun> runs;
    EBB_ASSIGN_OR_RETURN(runs, RunOnCpu(options_, jobs, StepsOf(jobs)));
    TakeMedians(runs, &mix);
    EBB_ASSIGN_OR_RETURN(mix.sim, Simulate(jobs));
    std::vector<double> alone, alone_sim;
    for (const std::string& job : jobs) {
      alone.push_back(alone_.at(job));
      alone_sim.push_back(alone_sim_.at(job));
    }
    mix.progress_real = Progress(mix.real.step_micros, alone);
    mix.progress_sim = Progress(mix.sim.step_micros, alone_sim);
    on_(absl::StrCat("mix ", report_.mixes.size(), ": step error ", mix.StepError(),
                     ", progress error ", mix.ProgressError(), ", others ", mix.real.others));
    report_.mixes.push_back(std::move(mix));
    return absl::OkStatus();
  }

  const FidelityOptions options_;
  const std::function<void(const std::string&)>& on_;
  std::map<std::string, double> alone_, alone_sim_;
  FidelityReport report_;
};

}  // namespace

bool FidelityMix::BytesExact() const { return real.bytes == sim.bytes && real.lanes == sim.lanes; }

double FidelityMix::StepError() const {
  double most = 0;
  for (size_t j = 0; j < jobs.size(); ++j) {
    most = std::max(most, Off(sim.step_micros[j], real.step_micros[j]));
  }
  return most;
}

double FidelityMix::ProgressError() const { return Off(progress_sim, progress_real); }

double FidelityReport::MaxStepError() const {
  double most = 0;
  for (const FidelityMix& mix : mixes) most = std::max(most, mix.StepError());
  return most;
}

double FidelityReport::MaxProgressError() const {
  double most = 0;
  for (const FidelityMix& mix : mixes) most = std::max(most, mix.ProgressError());
  return most;
}

bool FidelityReport::BytesExact() const {
  return std::all_of(mixes.begin(), mixes.end(),
                     [](const FidelityMix& mix) { return mix.BytesExact(); });
}

absl::StatusOr<FidelityReport> MeasureFidelity(const FidelityOptions& options,
                                               const std::function<void(const std::string&)>& on) {
  return Bench(options, on).Run();
}

}  // namespace ebb::bench
