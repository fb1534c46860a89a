// submit and watch.
#include <algorithm>
#include <cstdio>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/cli/commands.h"
#include "client/cli/render.h"
#include "client/json.h"
#include "client/submit.h"

namespace ebb::cli {
namespace {

constexpr size_t kMany = std::numeric_limits<size_t>::max();

int Submit(const Context& context) {
  // All files are read before the first job is submitted: a typo in the third should not leave two.
  std::vector<v1::JobSpec> specs;
  for (const std::string& path : context.args.positional()) {
    auto spec = client::ReadSpecFile(path, context.args.All("set"));
    if (!spec.ok()) return Fail(spec.status());
    specs.push_back(*std::move(spec));
  }
  if (context.args.Has("key") && specs.size() > 1) {
    return Fail(absl::InvalidArgumentError("--key goes with one job file"));
  }
  client::Uploader uploader(&context.client);
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::string& path = context.args.positional()[i];
    const absl::Status status = uploader.Upload(client::DirectoryOf(path), &specs[i]);
    if (!status.ok()) return Fail(Annotate(status, path));
  }
  std::vector<std::string> submitted;
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto job = context.client.Submit(specs[i], context.args.Get("key"));
    if (!job.ok()) {
      const std::string message = uploader.WithPaths(job.status().message());
      return Fail(
          Annotate(absl::Status(job.status().code(), message), context.args.positional()[i]));
    }
    submitted.push_back(job->id());
    if (context.json) {
      std::printf("%s\n", client::ToJson(*job, client::JsonStyle::kOneLine).c_str());
    } else {
      std::printf("%s %s%s\n", job->id().c_str(), job->name().c_str(),
                  specs[i].batch_size().has_auto_()
                      ? absl::StrCat(", batch_size ", job->batch_size()).c_str()
                      : "");
      for (const std::string& warning : job->warnings()) {
        std::fprintf(stderr, "ebb: %s: warning: %s\n", job->id().c_str(), warning.c_str());
      }
    }
    std::fflush(stdout);
  }
  return context.args.Has("watch") ? WatchJobs(context, submitted) : kOk;
}

int Watch(const Context& context) {
  std::vector<std::string> jobs;
  for (const std::string& name : context.args.positional()) {
    const auto job = context.client.Get(name);
    if (!job.ok()) return Fail(job.status());
    if (std::find(jobs.begin(), jobs.end(), job->id()) == jobs.end()) jobs.push_back(job->id());
  }
  return WatchJobs(context, jobs);
}

}  // namespace

std::vector<Command> SubmitCommands() {
  return {
      {"submit",
       "submit SPEC... [--watch] [--set KEY.PATH=VALUE]...",
       "Submit jobs from YAML or JSON files; files that they name are stored first.",
       "  ebb submit examples/digits-cnn-adam.yaml --watch\n"
       "  ebb submit job.yaml --set optimizer.adamw.lr=1e-3 --set stop.epochs=3 --set "
       "name=trial-7\n"
       "  ebb submit *.yaml\n",
       1,
       kMany,
       {{"watch", "", "show the jobs' progress until all have ended"},
        {"set", "KEY.PATH=VALUE", "change a field of all files; repeatable"},
        {"key", "KEY", "a second submit with this key answers with the first one's job"}},
       Submit},
      {"watch",
       "watch JOB...",
       "Show the progress of jobs until all have ended.",
       "  ebb watch j-17\n  ebb watch j-17 --json | jq -c '.points[]'\n",
       1,
       kMany,
       {},
       Watch},
  };
}

}  // namespace ebb::cli
