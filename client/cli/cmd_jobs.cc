// Commands on jobs that have been submitted.
#include <cstdio>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "client/cli/commands.h"
#include "client/cli/render.h"
#include "client/json.h"
#include "client/yaml.h"

namespace ebb::cli {
namespace {

using client::JsonStyle;

constexpr size_t kMany = std::numeric_limits<size_t>::max();

int Ps(const Context& context) {
  std::map<std::string, std::string> labels;
  for (const std::string& label : context.args.All("label")) {
    const size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Fail(absl::InvalidArgumentError(
          absl::StrCat("--label ", label, " is not of the form KEY=VALUE")));
    }
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(label, absl::MaxSplits('=', 1));
    labels.insert(parts);
  }
  const auto jobs = context.client.List(labels);
  if (!jobs.ok()) return Fail(jobs.status());
  if (context.json) {
    std::printf("%s\n", client::ToJson(*jobs, JsonStyle::kIndented).c_str());
  } else {
    std::fputs(JobTable(*jobs).c_str(), stdout);
  }
  return kOk;
}

int Show(const Context& context) {
  int code = kOk;
  for (const std::string& name : context.args.positional()) {
    const auto job = context.client.Get(name);
    if (!job.ok()) {
      code = Fail(job.status());
    } else if (context.json) {
      std::printf("%s\n", client::ToJson(*job, JsonStyle::kIndented).c_str());
    } else {
      std::fputs(JobDetails(*job).c_str(), stdout);
    }
  }
  return code;
}

int Why(const Context& context) {
  const auto job = context.client.Get(context.args.positional()[0]);
  if (!job.ok()) return Fail(job.status());
  if (context.json) {
    std::printf("%s\n", client::ToJson(*job, JsonStyle::kIndented).c_str());
  } else {
    std::fputs(WhyText(*job).c_str(), stdout);
  }
  return kOk;
}

// Does one thing to each of the jobs named; the last failure decides the exit code.
int ForEach(const Context& context,
            absl::StatusOr<v1::Job> (client::Client::*action)(const std::string&)) {
  int code = kOk;
  for (const std::string& name : context.args.positional()) {
    const auto job = (context.client.*action)(name);
    if (!job.ok()) {
      code = Fail(job.status());
    } else if (context.json) {
      std::printf("%s\n", client::ToJson(*job, JsonStyle::kOneLine).c_str());
    } else {
      std::printf("%s %s %s\n", job->id().c_str(), job->name().c_str(), StateName(*job).c_str());
    }
  }
  return code;
}

int Cancel(const Context& context) { return ForEach(context, &client::Client::Cancel); }
int Pause(const Context& context) { return ForEach(context, &client::Client::Pause); }
int Resume(const Context& context) { return ForEach(context, &client::Client::Resume); }

int Remove(const Context& context) {
  int code = kOk;
  for (const std::string& name : context.args.positional()) {
    const auto job = context.client.Get(name);
    const absl::Status status = job.ok() ? context.client.Forget(job->id()) : job.status();
    if (!status.ok()) {
      code = Fail(status);
    } else if (context.json) {
      std::printf("%s\n", client::ToJson(*job, JsonStyle::kOneLine).c_str());
    } else {
      std::printf("%s %s forgotten\n", job->id().c_str(), job->name().c_str());
    }
  }
  return code;
}

// A flag whose value is written as in a job file.
absl::Status ReadField(const Args& args, const std::string& flag, const std::string& field,
                       v1::JobSpec* spec) {
  const absl::Status status = client::ApplyOverride(absl::StrCat(field, "=", args.Get(flag)), spec);
  if (status.ok()) return status;
  // What is wrong comes last; the place in an assignment that nobody wrote comes before it.
  const absl::string_view message = status.message();
  const size_t start = message.find(absl::StrCat(flag, ": "));
  return absl::Status(status.code(), absl::StrCat("--", flag, " ", args.Get(flag), ": ",
                                                  start == absl::string_view::npos
                                                      ? message
                                                      : message.substr(start + flag.size() + 2)));
}

absl::StatusOr<v1::UpdateRequest> ReadUpdate(const Args& args) {
  v1::UpdateRequest request;
  request.set_job(args.positional()[0]);
  double number = 0;
  for (const char* flag : {"lr", "weight"}) {
    if (!args.Has(flag)) continue;
    if (!absl::SimpleAtod(args.Get(flag), &number)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag, " ", args.Get(flag), " is not a number"));
    }
    if (std::string(flag) == "lr") {
      request.set_learning_rate(number);
    } else {
      request.set_weight(number);
    }
  }
  // Priority and stop are written as in a job file.
  v1::JobSpec spec;
  if (args.Has("priority")) {
    EBB_RETURN_IF_ERROR(ReadField(args, "priority", "resources.priority", &spec));
    request.set_priority(spec.resources().priority());
  }
  if (args.Has("max_in_flight")) {
    EBB_RETURN_IF_ERROR(ReadField(args, "max_in_flight", "resources.max_in_flight", &spec));
    request.set_max_in_flight(spec.resources().max_in_flight());
  }
  for (const char* flag : {"steps", "epochs", "samples"}) {
    if (!args.Has(flag)) continue;
    EBB_RETURN_IF_ERROR(ReadField(args, flag, absl::StrCat("stop.", flag), &spec));
    *request.mutable_stop() = spec.stop();
  }
  return request;
}

int Update(const Context& context) {
  const auto request = ReadUpdate(context.args);
  if (!request.ok()) return Fail(request.status());
  const auto job = context.client.Update(*request);
  if (!job.ok()) return Fail(job.status());
  if (context.json) {
    std::printf("%s\n", client::ToJson(*job, JsonStyle::kIndented).c_str());
  } else {
    const bool says = request->has_stop() || request->has_learning_rate();
    const std::string note = says ? job->message() : "";
    std::printf("%s %s updated%s%s\n", job->id().c_str(), job->name().c_str(),
                note.empty() ? "" : ": ", note.c_str());
  }
  return kOk;
}

}  // namespace

std::vector<Command> JobCommands() {
  return {
      {"ps",
       "ps [--label KEY=VALUE]...",
       "List jobs.",
       "  ebb ps\n  ebb ps --label study=pets\n  ebb ps --json | jq '.jobs[] | select(.state == "
       "\"running\").id'\n",
       0,
       0,
       {{"label", "KEY=VALUE", "only jobs with this label; repeatable"}},
       Ps},
      {"show",
       "show JOB...",
       "Show all about jobs.",
       "  ebb show j-17\n  ebb show r18-pets --json\n",
       1,
       kMany,
       {},
       Show},
      {"why",
       "why JOB",
       "Say why a job waits, or why it failed.",
       "  ebb why j-19\n",
       1,
       1,
       {},
       Why},
      {"update",
       "update JOB [flags]",
       "Change a live job.",
       "  ebb update j-17 --lr 1e-4\n  ebb update j-17 --priority high --epochs 40\n",
       1,
       1,
       {{"lr", "RATE", "base learning rate from the next step on"},
        {"weight", "W", "share among equals"},
        {"priority", "P", "low, normal, high or a number"},
        {"max_in_flight", "N", "launched, unfinished sub-models; 0 = as ebbd says"},
        {"steps", "N", "stop after N steps"},
        {"epochs", "N", "stop after N epochs"},
        {"samples", "N", "stop after N samples"}},
       Update},
      {"cancel",
       "cancel JOB...",
       "End jobs at their next sub-model.",
       "  ebb cancel j-17 j-18\n",
       1,
       kMany,
       {},
       Cancel},
      {"pause",
       "pause JOB...",
       "Hold jobs at their next step boundary.",
       "  ebb pause j-17\n",
       1,
       kMany,
       {},
       Pause},
      {"resume",
       "resume JOB...",
       "Let paused jobs go on.",
       "  ebb resume j-17\n",
       1,
       kMany,
       {},
       Resume},
      {"rm",
       "rm JOB...",
       "Forget jobs that have ended, and free their results.",
       "  ebb rm j-17\n",
       1,
       kMany,
       {},
       Remove},
  };
}

}  // namespace ebb::cli
