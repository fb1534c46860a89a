#include "bench/fidelity_calibration.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "bench/fidelity_jobs.h"
#include "bench/node_timer.h"

namespace ebb::bench {
namespace {

constexpr double kKept = 0.8;  // of the samples of a node, the shortest: the rest was interrupted
constexpr char kPairJob[] = "cnn-16";
// Of bandwidth, between which the pair's is looked for.
constexpr double kLeastGbs = 1, kMostGbs = 1000;
constexpr int kHalvings = 14;

double MeanOfKept(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto kept = std::max<size_t>(1, static_cast<size_t>(kKept * samples.size()));
  return std::accumulate(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(kept),
                         0.0) /
         static_cast<double>(kept);
}

// Kernels of one job and what they take in a step together.
struct KernelSums {
  struct Sum {
    double micros = 0, bytes = 0;
    int count = 0;
  };
  std::map<std::string, Sum> sums;
  double step = 0;
  int kernels = 0;
};

absl::StatusOr<KernelSums> TimeKernels(const std::string& job, int64_t steps, Bytes pool) {
  const auto times = std::make_shared<std::vector<std::unique_ptr<NodeTimes>>>();
  EBB_ASSIGN_OR_RETURN(auto cpu, device::OpenDevice("cpu", {}));
  EBB_RETURN_IF_ERROR(
      RunJobs(std::make_unique<NodeTimer>(std::move(cpu), times), nullptr, pool, {job}, {steps})
          .status());
  KernelSums sums;
  for (const auto& program : *times) {
    for (size_t n = 0; n < program->kernels.size(); ++n) {
      if (program->micros[n].empty() || program->bytes[n] == 0) continue;
      const double micros = std::max(MeanOfKept(program->micros[n]), 0.01);
      KernelSums::Sum& sum = sums.sums[program->kernels[n]];
      sum.micros += micros;
      sum.bytes += program->bytes[n];
      ++sum.count;
      sums.step += micros;
      ++sums.kernels;
    }
  }
  if (sums.kernels == 0) return absl::InternalError(absl::StrCat(job, ": no kernel was timed"));
  return sums;
}

// What a profile must have and measured kernels make no use of: a core is a multiprocessor with one
// slot, copies run at the speed of memory.
device::SimProfile CpuProfile(const DeviceSpec& cpu, Bytes pool) {
  device::SimProfile profile;
  profile.key = "calibrated";
  profile.name = absl::StrCat(cpu.name, ", ", cpu.parallelism, " cores");
  profile.memory_gib = static_cast<double>(pool.count()) / (1 << 30);
  profile.multiprocessors = cpu.parallelism;
  profile.peak_tflops = 0.1 * cpu.parallelism;
  profile.bandwidth_gbs = 10.0 * cpu.parallelism;
  profile.bus_gbs = 10;
  profile.tile_rows = profile.tile_columns = 128;
  profile.tiles_per_multiprocessor = profile.blocks_per_multiprocessor = 1;
  profile.split_depth = profile.conv_split_depth = 1 << 20;
  profile.block_elements = 1 << 20;
  profile.steps_at_once = cpu.parallelism;
  profile.granule_kib = static_cast<double>(cpu.granule.count()) / 1024;
  profile.alignment_bytes = static_cast<double>(cpu.alignment.count());
  profile.like = "cpu";
  return profile;
}

class Calibrator {
 public:
  Calibrator(const FidelityOptions& options, const std::function<void(const std::string&)>& on)
      : options_(options), on_(on) {}

  absl::StatusOr<Calibration> Run() {
    EBB_ASSIGN_OR_RETURN(const auto cpu, device::OpenDevice("cpu", {}));
    result_.profile = CpuProfile(cpu->spec(), options_.pool);
    for (const std::string& job : FidelityJobs()) EBB_RETURN_IF_ERROR(Alone(job));
    result_.profile.kernel_gap_us = Median(gaps_);
    // With a stream on every core, the engine's threads take their time from the streams.
    std::vector<double> host;
    for (const SoloFigures& solo : result_.solo) host.push_back(solo.host);
    result_.profile.interference = Median(host);
    EBB_RETURN_IF_ERROR(Pair());
    // Its hash is that of its text.
    EBB_ASSIGN_OR_RETURN(result_.profile,
                         device::ParseSimProfile(ToText(result_.profile), "calibrated"));
    return std::move(result_);
  }

 private:
  int64_t StepsFor(double step_micros) const {
    return 10 + std::llround(options_.seconds * 1e6 / step_micros);
  }

  absl::Status Alone(const std::string& job) {
    SoloFigures figures{.name = job};
    EBB_ASSIGN_OR_RETURN(
        const auto look,
        RunOnCpu({.repeats = 1, .patience = 0, .pool = options_.pool}, {job}, {12}));
    const int64_t steps = StepsFor(look[0].step_micros[0]);
    EBB_ASSIGN_OR_RETURN(const auto runs, RunOnCpu(options_, {job}, {steps}));
    std::vector<double> busy, host;
    for (const FidelityRun& run : runs) {
      busy.push_back(run.busy_micros[0]);
      host.push_back(run.own - run.busy_micros[0] / run.step_micros[0]);
      figures.launches = run.launches_per_step;
    }
    figures.step_micros = StepMicros(runs, 0);
    figures.busy_micros = Median(busy);
    figures.others = runs.back().others;
    figures.host = std::max(0.0, Median(host));
    EBB_ASSIGN_OR_RETURN(const KernelSums kernels, TimeKernels(job, steps, options_.pool));
    // One by one they take a little longer; what counts is what the step takes.
    const double scale = figures.busy_micros / kernels.step;
    for (const auto& [kernel, sum] : kernels.sums) {
      KernelSums::Sum& all = sums_[kernel];
      all.micros += sum.micros * scale;
      all.bytes += sum.bytes;
      all.count += sum.count;
    }
    gaps_.push_back(std::max(0.0, figures.step_micros - figures.busy_micros) / kernels.kernels);
    on_(absl::StrCat(job, ": step ", figures.step_micros, " us, executing ", figures.busy_micros,
                     ", nodes ", kernels.step, " (", kernels.kernels, "), launches ",
                     figures.launches, ", host ", figures.host, ", others ", figures.others));
    result_.solo.push_back(std::move(figures));
    return absl::OkStatus();
  }

  absl::Status Pair() {
    const auto solo = std::find_if(result_.solo.begin(), result_.solo.end(),
                                   [](const SoloFigures& f) { return f.name == kPairJob; });
    const int64_t steps = StepsFor(solo->step_micros);
    EBB_ASSIGN_OR_RETURN(const auto runs, RunOnCpu(options_, {kPairJob, kPairJob}, {steps, steps}));
    result_.self_slowdown = (StepMicros(runs, 0) + StepMicros(runs, 1)) / 2 / solo->step_micros;
    // Memory of half the speed slows the simulated pair down more.
    double low = kLeastGbs, high = kMostGbs;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = std::sqrt(low * high);
      EBB_ASSIGN_OR_RETURN(const double slowdown, SimulatedSlowdown(middle));
      (slowdown > result_.self_slowdown ? low : high) = middle;
    }
    SetBandwidth(high);
    on_(absl::StrCat("pair of ", kPairJob, ": slowdown ", result_.self_slowdown, ", as with ", high,
                     " GB/s"));
    return absl::OkStatus();
  }

  // Of memory that all share; what kernels alone use of it follows.
  void SetBandwidth(double gbs) {
    result_.profile.bandwidth_gbs = gbs;
    for (const auto& [kernel, sum] : sums_) {
      result_.profile.kernels[kernel] = {
          sum.micros / sum.count,
          std::min(1.0, sum.bytes / sum.micros / result_.profile.bytes_per_us())};
    }
  }

  absl::StatusOr<double> SimulatedSlowdown(double gbs) {
    constexpr int64_t kSteps = 40;
    SetBandwidth(gbs);
    std::vector<double> micros;
    for (const size_t jobs : {1, 2}) {
      EBB_ASSIGN_OR_RETURN(auto sim, OpenCalibrated(result_.profile));
      device::SimDevice* const clock = sim.get();
      EBB_ASSIGN_OR_RETURN(const FidelityRun run, RunJobs(std::move(sim), clock, options_.pool,
                                                          std::vector<std::string>(jobs, kPairJob),
                                                          std::vector<int64_t>(jobs, kSteps)));
      micros.push_back(run.step_micros[0]);
    }
    return micros[1] / micros[0];
  }

  const FidelityOptions options_;
  const std::function<void(const std::string&)>& on_;
  std::map<std::string, KernelSums::Sum> sums_;
  std::vector<double> gaps_;  // by job: time between two kernels
  Calibration result_;
};

}  // namespace

absl::StatusOr<Calibration> Calibrate(const FidelityOptions& options,
                                      const std::function<void(const std::string&)>& on) {
  return Calibrator(options, on).Run();
}

absl::StatusOr<std::unique_ptr<device::SimDevice>> OpenCalibrated(
    const device::SimProfile& profile) {
  return device::MakeSim(profile, device::OverlapModel::kSlots,
                         [](const std::string& name) { return device::OpenDevice(name, {}); });
}

}  // namespace ebb::bench
