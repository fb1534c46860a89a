// Jobs that train on this machine's cpu device: their steps at batches at which they did not run,
// alone and beside another job, predicted from 50 steps at two batches each.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "bench/fidelity_run.h"
#include "bench/node_timer.h"
#include "bench/predict/groups.h"
#include "perfmodel/interference.h"
#include "perfmodel/step_law.h"

namespace ebb::bench {
namespace {

constexpr int64_t kSteps = 50;
constexpr int kRounds = 9;  // over all runs, so that what disturbs the machine hits no run alone
const Bytes kPool = MiB(1024);

struct Job {
  const char* name;
  int64_t low, high;  // measured
  int64_t third;      // between them
  int64_t beyond;     // twice the larger: extrapolated
  std::string At(int64_t batch) const { return absl::StrCat(name, "@", batch); }
};
constexpr std::array<Job, 3> kJobs = {
    {{"mlp-512", 16, 64, 32, 128}, {"cnn-16", 4, 16, 8, 32}, {"encoder-128", 4, 16, 8, 32}}};

using Jobs = std::vector<std::string>;

// The half of the rounds that others disturbed least.
class Rounds {
 public:
  void Add(FidelityRun run) { runs_.push_back(std::move(run)); }
  double Step(size_t job) const { return StepMicros(Quiet(), job); }
  double Busy() const {
    std::vector<double> micros;
    for (const FidelityRun& run : Quiet()) micros.push_back(run.busy_micros[0]);
    return Median(std::move(micros));
  }
  double others() const {
    std::vector<double> parts;
    for (const FidelityRun& run : Quiet()) parts.push_back(run.others);
    return Median(std::move(parts));
  }

 private:
  std::vector<FidelityRun> Quiet() const {
    std::vector<FidelityRun> runs = runs_;
    std::sort(runs.begin(), runs.end(),
              [](const FidelityRun& a, const FidelityRun& b) { return a.others < b.others; });
    runs.resize((runs.size() + 1) / 2);
    return runs;
  }
  std::vector<FidelityRun> runs_;
};

class Bench {
 public:
  absl::StatusOr<std::vector<PredictRow>> Run() {
    for (int round = 0; round < kRounds; ++round) {
      for (const Job& job : kJobs) {
        for (const int64_t batch : {job.low, job.high, job.third, job.beyond}) {
          EBB_RETURN_IF_ERROR(Measure({job.At(batch)}));
        }
        EBB_RETURN_IF_ERROR(TimeNodes(job.At(job.low)));
        EBB_RETURN_IF_ERROR(TimeNodes(job.At(job.high)));
        EBB_RETURN_IF_ERROR(Measure({job.At(job.low), job.At(job.high)}));
      }
      for (const auto& [a, b] : Pairs()) {
        EBB_RETURN_IF_ERROR(Measure({a->At(a->low), b->At(b->high)}));
        EBB_RETURN_IF_ERROR(Measure({a->At(a->third), b->At(b->third)}));
      }
    }
    EBB_RETURN_IF_ERROR(Learn());
    return Rows();
  }

 private:
  static std::vector<std::pair<const Job*, const Job*>> Pairs() {
    return {{&kJobs[0], &kJobs[1]}, {&kJobs[0], &kJobs[2]}, {&kJobs[1], &kJobs[2]}};
  }

  // 50 steps, and of the quicker of two jobs as many as take as long.
  std::vector<int64_t> StepsOf(const Jobs& jobs) const {
    if (jobs.size() == 1) return {kSteps};
    double longest = 0;
    for (const std::string& job : jobs) longest = std::max(longest, runs_.at({job}).Step(0));
    std::vector<int64_t> steps;
    for (const std::string& job : jobs) {
      steps.push_back(
          std::llround(static_cast<double>(kSteps) * longest / runs_.at({job}).Step(0)));
    }
    return steps;
  }

  absl::Status Measure(const Jobs& jobs) {
    EBB_ASSIGN_OR_RETURN(auto cpu, device::OpenDevice("cpu", {}));
    EBB_ASSIGN_OR_RETURN(FidelityRun run,
                         RunJobs(std::move(cpu), nullptr, kPool, jobs, StepsOf(jobs)));
    runs_[jobs].Add(std::move(run));
    return absl::OkStatus();
  }

  // The nodes of a step one by one; the times of all rounds are put together.
  absl::Status TimeNodes(const std::string& job) {
    const auto times = std::make_shared<std::vector<std::unique_ptr<NodeTimes>>>();
    EBB_ASSIGN_OR_RETURN(auto cpu, device::OpenDevice("cpu", {}));
    EBB_RETURN_IF_ERROR(
        RunJobs(std::make_unique<NodeTimer>(std::move(cpu), times), nullptr, kPool, {job}, {kSteps})
            .status());
    int programs = 0;
    for (const auto& program : *times) {
      bool counts = false;
      for (size_t n = 0; n < program->names.size(); ++n) {
        // What runs once initialises.
        if (program->micros[n].size() < kSteps / 2 || program->bytes[n] == 0) continue;
        counts = true;
        TimedNode& node = nodes_[job][absl::StrCat(programs, "/", program->names[n])];
        node.work = program->works[n];
        node.micros.push_back(Median(program->micros[n]));
      }
      if (counts) ++programs;
    }
    if (programs == 0) return absl::InternalError(absl::StrCat(job, ": no node was timed"));
    return absl::OkStatus();
  }

  absl::StatusOr<perfmodel::StepSample> SampleOf(const Job& job, int64_t batch) {
    const Rounds& alone = runs_.at({job.At(batch)});
    perfmodel::StepSample sample;
    sample.batch = batch;
    sample.step_us = alone.Step(0);
    double sum = 0;
    for (auto& [name, node] : nodes_[job.At(batch)]) {
      sample.nodes.push_back({name, node.work, Median(node.micros)});
      sum += sample.nodes.back().micros;
    }
    if (sum <= 0) return absl::InternalError(absl::StrCat(job.At(batch), ": nodes of no time"));
    // One by one they take a little longer; what counts is what the step's launches take.
    for (perfmodel::NodeTime& node : sample.nodes) node.micros *= alone.Busy() / sum;
    return sample;
  }

  absl::Status Learn() {
    for (const Job& job : kJobs) {
      std::vector<perfmodel::StepSample> samples;
      for (const int64_t batch : {job.low, job.high}) {
        EBB_ASSIGN_OR_RETURN(samples.emplace_back(), SampleOf(job, batch));
      }
      EBB_ASSIGN_OR_RETURN(const auto law, perfmodel::StepLaw::Fit(samples));
      laws_.emplace(job.name, law);
    }
    return absl::OkStatus();
  }

  // Of both jobs of a calibration pair: `a` at its smaller batch, `b` at its larger.
  void AddCoRuns(const Job& a, const Job& b, std::vector<perfmodel::CoRun>* out) const {
    const Jobs jobs = {a.At(a.low), b.At(b.high)};
    for (const size_t j : {0, 1}) {
      out->push_back(
          {.alone_us = runs_.at({jobs[j]}).Step(0), .beside_us = runs_.at(jobs).Step(j)});
    }
  }

  // By how much two jobs slow each other, from the pairs that are not theirs.
  absl::StatusOr<double> SlowdownWithout(const Job* a, const Job* b) const {
    std::vector<perfmodel::CoRun> co_runs;
    for (const Job& job : kJobs) AddCoRuns(job, job, &co_runs);
    for (const auto& [c, d] : Pairs()) {
      if (c != a || d != b) AddCoRuns(*c, *d, &co_runs);
    }
    return Slowdown(co_runs);
  }
  // The same from each of them beside itself.
  absl::StatusOr<double> SlowdownOfSelves(const Job* a, const Job* b) const {
    double product = 1;
    for (const Job* job : {a, b}) {
      std::vector<perfmodel::CoRun> co_runs;
      AddCoRuns(*job, *job, &co_runs);
      EBB_ASSIGN_OR_RETURN(const double slowdown, Slowdown(co_runs));
      product *= slowdown;
    }
    return std::sqrt(product);
  }
  static absl::StatusOr<double> Slowdown(const std::vector<perfmodel::CoRun>& co_runs) {
    EBB_ASSIGN_OR_RETURN(const auto fitted, perfmodel::FitInterference(co_runs));
    return fitted.of(perfmodel::Resource::kCompute, perfmodel::Resource::kCompute);
  }

  absl::StatusOr<std::vector<PredictRow>> Rows() const {
    std::vector<Predicted> third, beyond, beside, selves;
    for (const Job& job : kJobs) {
      EBB_RETURN_IF_ERROR(Alone(job, job.third, &third));
      EBB_RETURN_IF_ERROR(Alone(job, job.beyond, &beyond));
    }
    for (const auto& [a, b] : Pairs()) {
      EBB_ASSIGN_OR_RETURN(const double slowdown, SlowdownWithout(a, b));
      EBB_ASSIGN_OR_RETURN(const double of_selves, SlowdownOfSelves(a, b));
      const Rounds& pair = runs_.at({a->At(a->third), b->At(b->third)});
      for (const size_t j : {0, 1}) {
        const Job& job = j == 0 ? *a : *b;
        EBB_ASSIGN_OR_RETURN(const auto step, laws_.at(job.name).Step(job.third));
        beside.push_back({.measured = pair.Step(j), .median = step.median * slowdown});
        selves.push_back({.measured = pair.Step(j), .median = step.median * of_selves});
        Tell(absl::StrCat(job.At(job.third), " beside ", (j == 0 ? *b : *a).name), beside.back(),
             pair.others());
      }
    }
    return std::vector<PredictRow>{WorstOf("cpu steps, third batch, worst of", third, 10),
                                   WorstOf("cpu steps, beside another job, worst of", beside, 15),
                                   RowOf("cpu steps, the same by each beside itself", selves),
                                   RowOf("cpu steps, twice the largest batch", beyond)};
  }

  absl::Status Alone(const Job& job, int64_t batch, std::vector<Predicted>* out) const {
    const Rounds& alone = runs_.at({job.At(batch)});
    EBB_ASSIGN_OR_RETURN(const auto step, laws_.at(job.name).Step(batch));
    out->push_back({alone.Step(0), step.median, step.low, step.high});
    Tell(job.At(batch), out->back(), alone.others());
    return absl::OkStatus();
  }

  // The gate is for each of them, not for their mean.
  static PredictRow WorstOf(const std::string& name, const std::vector<Predicted>& tested,
                            double gate) {
    PredictRow row = RowOf(name, tested, gate);
    row.value = 0;
    for (const Predicted& p : tested) {
      row.value = std::max(row.value, 100 * std::abs(p.median / p.measured - 1));
    }
    return row;
  }

  static void Tell(const std::string& what, const Predicted& p, double others) {
    std::fprintf(
        stderr, "%-34s measured %9.0f us, predicted %9.0f (%+.1f %%), others took %.0f %%\n",
        what.c_str(), p.measured, p.median, 100 * (p.median / p.measured - 1), 100 * others);
  }

  struct TimedNode {
    perfmodel::Work work;
    std::vector<double> micros;  // the median of each round
  };
  std::map<Jobs, Rounds> runs_;
  std::map<std::string, std::map<std::string, TimedNode>> nodes_;  // by job with batch
  std::map<std::string, perfmodel::StepLaw> laws_;
};

}  // namespace

absl::StatusOr<std::vector<PredictRow>> CpuStepRows(const std::string&) { return Bench().Run(); }

}  // namespace ebb::bench
