// Progress of jobs: bars on a terminal, lines in a pipe, JSON lines for programs.
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "client/cli/commands.h"
#include "client/cli/render.h"
#include "client/json.h"
#include "proto/names.h"

namespace ebb::cli {
namespace {

enum class Style { kTerminal, kLines, kJson };

std::string Metrics(const v1::Job& job, const char* separator) {
  std::map<std::string, double> sorted(job.metrics().begin(), job.metrics().end());
  std::string text;
  for (const auto& [name, value] : sorted)
    absl::StrAppend(&text, separator, name, " ", Short(value));
  return text;
}

std::string Ending(const v1::Job& job) {
  std::string text = absl::StrCat(job.id(), " ", job.name(), " ", StateName(job), " at step ",
                                  WithCommas(job.step()), Metrics(job, "  "));
  if (job.state() == v1::Job::STATE_FAILED) {
    absl::StrAppend(&text, "  (",
                    proto::ShortName(*v1::Job::Reason_descriptor(), static_cast<int>(job.reason())),
                    ": ", job.message(), ")");
  } else if (!job.message().empty()) {
    absl::StrAppend(&text, "  (", job.message(), ")");
  }
  return text;
}

bool IsFinal(const v1::Job& job) { return job.state() >= v1::Job::STATE_SUCCEEDED; }

// Takes updates of all jobs, from one thread each.
class Display {
 public:
  Display(Style style, size_t jobs) : style_(style), rows_(jobs) {}

  void Update(size_t index, const v1::WatchResponse& update) {
    MutexLock lock(&mu_);
    Row& row = rows_[index];
    const bool changed = row.job.state() != update.job().state();
    row.job = update.job();
    switch (style_) {
      case Style::kJson:
        std::printf("%s\n", client::ToJson(update, client::JsonStyle::kOneLine).c_str());
        std::fflush(stdout);
        return;
      case Style::kLines:
        PrintLine(&row, changed, update);
        return;
      case Style::kTerminal:
        if (changed || absl::Now() - drawn_ > absl::Milliseconds(100)) Draw();
    }
  }

 private:
  struct Row {
    v1::Job job;
    absl::Time printed = absl::InfinitePast();
  };

  // A line for every change of state and every evaluation, and one a second between them.
  void PrintLine(Row* row, bool changed, const v1::WatchResponse& update)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    bool evaluated = false;
    for (const v1::MetricPoint& point : update.points()) {
      evaluated = evaluated || !absl::StartsWith(point.name(), "train/");
    }
    const v1::Job& job = row->job;
    const absl::Time now = absl::Now();
    if (!changed && !evaluated && now - row->printed < absl::Seconds(1)) return;
    row->printed = now;
    if (IsFinal(job)) {
      std::printf("%s\n", Ending(job).c_str());
    } else {
      const std::string epoch =
          job.total_epochs() > 0 ? absl::StrCat("  epoch ", Short(job.epoch())) : "";
      std::printf("%s %s %s  step %s/%s%s%s%s\n", job.id().c_str(), job.name().c_str(),
                  StateName(job).c_str(), WithCommas(job.step()).c_str(),
                  WithCommas(job.total_steps()).c_str(), epoch.c_str(), Metrics(job, "  ").c_str(),
                  job.why().empty() || job.state() == v1::Job::STATE_RUNNING
                      ? ""
                      : absl::StrCat("  ", job.why()).c_str());
    }
    std::fflush(stdout);
  }

  void Draw() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    std::string text;
    if (drawn_rows_ > 0) absl::StrAppend(&text, "\x1b[", drawn_rows_, "A");
    for (const Row& row : rows_) {
      const v1::Job& job = row.job;
      absl::StrAppend(&text, "\r\x1b[K");
      if (IsFinal(job)) {
        absl::StrAppend(&text, Ending(job), "\n");
        continue;
      }
      const double done = job.total_steps() == 0 ? 0
                                                 : static_cast<double>(job.step()) /
                                                       static_cast<double>(job.total_steps());
      absl::StrAppend(&text, job.id(), " ", job.name(), " [", Bar(done, 24), "] ",
                      WithCommas(job.step()), "/", WithCommas(job.total_steps()));
      if (job.metrics().contains("train/loss")) absl::StrAppend(&text, "  loss ", LossOf(job));
      if (job.state() == v1::Job::STATE_RUNNING) {
        if (job.has_eta()) {
          absl::StrAppend(&text, "  ", ShortDuration(absl::Seconds(job.eta().seconds())));
        }
      } else {
        absl::StrAppend(&text, "  ", StateName(job), job.why().empty() ? "" : ": ", job.why());
      }
      text += "\n";
    }
    drawn_rows_ = rows_.size();
    drawn_ = absl::Now();
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  const Style style_;
  Mutex mu_;
  std::vector<Row> rows_ ABSL_GUARDED_BY(mu_);
  absl::Time drawn_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  size_t drawn_rows_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace

int WatchJobs(const Context& context, const std::vector<std::string>& jobs) {
  const Style style = context.json            ? Style::kJson
                      : isatty(STDOUT_FILENO) ? Style::kTerminal
                                              : Style::kLines;
  Display display(style, jobs.size());
  std::vector<absl::Status> statuses(jobs.size());
  std::vector<v1::Job::State> states(jobs.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < jobs.size(); ++i) {
    threads.emplace_back([&, i] {
      statuses[i] = context.client.Watch(jobs[i], 0, [&](const v1::WatchResponse& update) {
        states[i] = update.job().state();
        display.Update(i, update);
        return true;
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  int code = kOk;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (!statuses[i].ok()) {
      code = Fail(statuses[i]);
    } else if (states[i] != v1::Job::STATE_SUCCEEDED && code == kOk) {
      code = kJobFailed;
    }
  }
  return code;
}

}  // namespace ebb::cli
