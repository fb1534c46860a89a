// ebb-random-search: a random search over learning rate, optimizer, seed and model, written on the
// C++ client library. It keeps --parallel trials in a running ebbd, which packs them onto its
// device, and cancels those that fall behind.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/mutex.h"
#include "base/status.h"
#include "client/cli/args.h"
#include "client/cli/render.h"
#include "client/client.h"
#include "client/submit.h"

namespace ebb::examples {
namespace {

// A trial is hopeless when, from its third evaluation on, its best value so far is below the median
// of what at least this many other trials had reached by then.
constexpr size_t kEnoughOthers = 3;
constexpr size_t kFirstJudged = 3;
constexpr char kMetric[] = "val/accuracy";

constexpr char kUsage[] =
    "ebb-random-search: random search over a job file, on a running ebbd.\n\n"
    "Usage: ebb-random-search --spec base.yaml [flags]\n\n"
    "  --spec FILE       the job that trials are made from; it must report val/accuracy\n"
    "  --trials N        trials in all (default 16)\n"
    "  --parallel K      trials given to ebbd at once (default 6)\n"
    "  --seed S          of the search; the same seed draws the same trials (default 1)\n"
    "  --model FILE      ONNX model, relative to the job file; repeat to choose among several\n"
    "  --set KEY=VALUE   change the job file first, as in ebb submit; repeatable\n"
    "  --server ADDRESS  socket path or HOST:PORT (default $EBB_SERVER, or ebbd's socket)\n\n"
    "Example: ebb-random-search --spec examples/digits-cnn-sgd.yaml --model models/mlp.onnx \\\n"
    "           --model models/cnn.onnx --trials 20 --parallel 6\n";

std::atomic<bool> interrupted = false;

struct Options {
  int trials = 16, parallel = 6;
  uint64_t seed = 1;
  std::vector<std::string> models;
};

struct Trial {
  v1::JobSpec spec;
  std::string model, optimizer;
  double lr = 0;
  std::string job;
  std::string outcome = "not started";
  std::vector<double> best;  // after each evaluation
};

// A flag that is a number from `least` up; stays as it is when the flag is not given.
template <typename T>
absl::Status Number(const cli::Args& args, const std::string& flag, T least, T* value) {
  if (!args.Has(flag) || (absl::SimpleAtoi(args.Get(flag), value) && *value >= least)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " must be a number from ", least,
                                                 " up, not '", args.Get(flag), "'"));
}

// The trials depend on the seed alone, not on how they run.
std::vector<Trial> DrawTrials(const Options& options, const v1::JobSpec& base) {
  std::mt19937_64 random(options.seed);
  const auto uniform = [&random] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  std::vector<std::string> models = options.models;
  if (models.empty()) models.push_back(base.model().onnx());
  std::vector<Trial> trials(options.trials);
  for (size_t t = 0; t < trials.size(); ++t) {
    Trial& trial = trials[t];
    trial.spec = base;
    v1::JobSpec& spec = trial.spec;
    trial.model = models[random() % models.size()];
    if (!options.models.empty()) spec.mutable_model()->set_onnx(trial.model);
    v1::Optimizer* optimizer = spec.mutable_optimizer();
    switch (random() % 3) {
      case 0:
        trial.optimizer = "sgd";
        trial.lr = std::pow(10, -3 + 3 * uniform());  // 1e-3 to 1
        optimizer->mutable_sgd()->set_lr(trial.lr);
        optimizer->mutable_sgd()->set_momentum(0.9);
        break;
      case 1:
        trial.optimizer = "adam";
        trial.lr = std::pow(10, -4.5 + 3 * uniform());  // 3e-5 to 3e-2
        optimizer->mutable_adam()->set_lr(trial.lr);
        break;
      default:
        trial.optimizer = "adamw";
        trial.lr = std::pow(10, -4.5 + 3 * uniform());
        optimizer->mutable_adamw()->set_lr(trial.lr);
    }
    const uint64_t seed = random() >> 33;
    spec.mutable_seed()->set_init(seed);
    spec.mutable_seed()->set_data(seed + 1);
    spec.mutable_seed()->set_dropout(seed + 2);
    spec.set_name(absl::StrFormat("trial-%02d", t));
    (*spec.mutable_labels())["search"] = absl::StrCat(base.name(), "-", options.seed);
  }
  return trials;
}

class Search {
 public:
  Search(client::Client* client, std::vector<Trial>* trials)
      : client_(client), count_(trials->size()), trials_(*trials) {}

  // Runs all trials, `parallel` at a time; the first error that is not one trial's own ends it.
  absl::Status Run(int parallel) {
    std::vector<std::thread> threads;
    for (int k = 0; k < std::min<int>(parallel, static_cast<int>(count_)); ++k) {
      threads.emplace_back([this] { Work(); });
    }
    for (std::thread& thread : threads) thread.join();
    MutexLock lock(&mu_);
    return status_;
  }

 private:
  void Work() {
    for (;;) {
      size_t t = 0;
      {
        MutexLock lock(&mu_);
        if (!status_.ok() || interrupted || next_ == count_) return;
        t = next_++;
      }
      if (const absl::Status status = RunTrial(t); !status.ok()) {
        MutexLock lock(&mu_);
        status_.Update(status);
        return;
      }
    }
  }

  absl::Status RunTrial(size_t t) {
    v1::JobSpec spec;
    {
      MutexLock lock(&mu_);
      spec = trials_[t].spec;
    }
    const auto job = client_->Submit(spec);
    if (absl::IsUnavailable(job.status())) return job.status();
    if (!job.ok()) {  // refused: this one's own matter
      Say(t, absl::StrCat("refused: ", std::string(job.status().message())));
      return absl::OkStatus();
    }
    {
      MutexLock lock(&mu_);
      trials_[t].job = job->id();
    }
    v1::Job last = *job;
    bool hopeless = false;
    const absl::Status watched = client_->Watch(job->id(), 0, [&](const v1::WatchResponse& news) {
      last = news.job();
      for (const v1::MetricPoint& point : news.points()) {
        if (point.name() == kMetric) hopeless |= FallsBehind(t, point.value());
      }
      return !hopeless && !interrupted;
    });
    if (!watched.ok()) return watched;
    if (hopeless || interrupted) {
      EBB_ASSIGN_OR_RETURN(last, client_->Cancel(job->id()));
    }
    Say(t, hopeless ? "stopped early"
                    : absl::StrCat(cli::StateName(last), last.message().empty() ? "" : ": ",
                                   last.message()));
    return absl::OkStatus();
  }

  // Notes the value of an evaluation, and says whether the trial should be given up.
  bool FallsBehind(size_t t, double value) {
    MutexLock lock(&mu_);
    std::vector<double>& mine = trials_[t].best;
    mine.push_back(mine.empty() ? value : std::max(mine.back(), value));
    if (mine.size() < kFirstJudged) return false;
    std::vector<double> others;
    for (const Trial& other : trials_) {
      if (&other != &trials_[t] && other.best.size() >= mine.size()) {
        others.push_back(other.best[mine.size() - 1]);
      }
    }
    if (others.size() < kEnoughOthers) return false;
    std::nth_element(others.begin(), others.begin() + others.size() / 2, others.end());
    return mine.back() < others[others.size() / 2];
  }

  void Say(size_t t, const std::string& outcome) {
    MutexLock lock(&mu_);
    Trial& trial = trials_[t];
    trial.outcome = outcome;
    std::printf("%s  %-6s lr %-9s %s  %s\n", trial.spec.name().c_str(), trial.optimizer.c_str(),
                cli::Short(trial.lr).c_str(),
                trial.best.empty() ? "-" : cli::Short(trial.best.back()).c_str(), outcome.c_str());
    std::fflush(stdout);
  }

  client::Client* const client_;
  const size_t count_;
  Mutex mu_;
  std::vector<Trial>& trials_ ABSL_GUARDED_BY(mu_);
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

void PrintTable(std::vector<Trial> trials) {
  // The best first; trials that failed prove nothing and come last.
  const auto rank = [](const Trial& trial) {
    return trial.best.empty() || absl::StartsWith(trial.outcome, "failed") ? -1 : trial.best.back();
  };
  std::stable_sort(trials.begin(), trials.end(),
                   [&](const Trial& a, const Trial& b) { return rank(a) > rank(b); });
  std::vector<std::vector<std::string>> rows = {{"BEST VAL/ACCURACY", "TRIAL", "JOB", "MODEL",
                                                 "OPTIMIZER", "LR", "SEED", "EVALS", "OUTCOME"}};
  for (const Trial& trial : trials) {
    rows.push_back({trial.best.empty() ? "-" : absl::StrFormat("%.4f", trial.best.back()),
                    trial.spec.name(), trial.job.empty() ? "-" : trial.job, trial.model,
                    trial.optimizer, cli::Short(trial.lr), absl::StrCat(trial.spec.seed().init()),
                    absl::StrCat(trial.best.size()), trial.outcome});
  }
  std::printf("\n%s", cli::Table(rows).c_str());
}

absl::Status Run(const std::vector<std::string>& words) {
  EBB_ASSIGN_OR_RETURN(const cli::Args args, cli::Args::Parse(words, {{"spec", "FILE", ""},
                                                                      {"trials", "N", ""},
                                                                      {"parallel", "K", ""},
                                                                      {"seed", "S", ""},
                                                                      {"model", "FILE", ""},
                                                                      {"set", "KEY=VALUE", ""},
                                                                      {"server", "ADDRESS", ""},
                                                                      {"help", "", ""}}));
  if (args.Has("help")) {
    std::fputs(kUsage, stdout);
    return absl::OkStatus();
  }
  const std::string path = args.Get("spec");
  if (path.empty() || !args.positional().empty()) {
    return absl::InvalidArgumentError("give one job file, as --spec FILE; see --help");
  }
  Options options;
  options.models = args.All("model");
  EBB_RETURN_IF_ERROR(Number(args, "trials", 1, &options.trials));
  EBB_RETURN_IF_ERROR(Number(args, "parallel", 1, &options.parallel));
  EBB_RETURN_IF_ERROR(Number(args, "seed", uint64_t{0}, &options.seed));

  EBB_ASSIGN_OR_RETURN(const v1::JobSpec base, client::ReadSpecFile(path, args.All("set")));
  EBB_ASSIGN_OR_RETURN(const auto client, client::Client::Connect(args.Get("server")));
  std::vector<Trial> trials = DrawTrials(options, base);
  client::Uploader uploader(client.get());
  for (Trial& trial : trials) {
    EBB_RETURN_IF_ERROR(uploader.Upload(client::DirectoryOf(path), &trial.spec));
  }
  const absl::Status status = Search(client.get(), &trials).Run(options.parallel);
  PrintTable(trials);
  EBB_RETURN_IF_ERROR(status);
  if (interrupted) return absl::CancelledError("interrupted; the trials that ran were cancelled");
  if (std::any_of(trials.begin(), trials.end(), [](const Trial& t) { return !t.best.empty(); })) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no trial reported ", kMetric,
                   ": see OUTCOME; the job needs data.val and metrics: [accuracy]"));
}

}  // namespace
}  // namespace ebb::examples

int main(int argc, char** argv) {
  std::signal(SIGINT, [](int) {
    ebb::examples::interrupted = true;
    std::signal(SIGINT, SIG_DFL);  // the second one ends it at once
  });
  const absl::Status status = ebb::examples::Run({argv + 1, argv + argc});
  if (status.ok()) return 0;
  std::fprintf(stderr, "ebb-random-search: %s\n", std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? 2 : 1;
}
