// memory, device and explain: what the daemon holds and plans.
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/text.h"
#include "client/cli/commands.h"
#include "client/cli/render.h"
#include "client/json.h"

namespace ebb::cli {
namespace {

using client::JsonStyle;

int Memory(const Context& context) {
  const bool watch = context.args.Has("watch");
  while (true) {
    const auto report = context.client.Memory();
    if (!report.ok()) return Fail(report.status());
    if (context.json) {
      std::printf(
          "%s\n",
          client::ToJson(*report, watch ? JsonStyle::kOneLine : JsonStyle::kIndented).c_str());
    } else {
      if (watch && isatty(STDOUT_FILENO)) std::fputs("\x1b[H\x1b[2J", stdout);
      std::fputs(MemoryPicture(*report).c_str(), stdout);
    }
    std::fflush(stdout);
    if (!watch) return kOk;
    absl::SleepFor(absl::Milliseconds(500));
  }
}

int Device(const Context& context) {
  const auto report = context.client.Device();
  if (!report.ok()) return Fail(report.status());
  std::fputs(context.json
                 ? absl::StrCat(client::ToJson(*report, JsonStyle::kIndented), "\n").c_str()
                 : DeviceText(*report).c_str(),
             stdout);
  return kOk;
}

int Explain(const Context& context) {
  const auto report = context.client.Explain(context.args.positional()[0]);
  if (!report.ok()) return Fail(report.status());
  std::fputs(context.json
                 ? absl::StrCat(client::ToJson(*report, JsonStyle::kIndented), "\n").c_str()
                 : ExplainText(*report).c_str(),
             stdout);
  return kOk;
}

}  // namespace

int Fail(const absl::Status& status) {
  std::fflush(stdout);
  std::fprintf(stderr, "ebb: %s\n", Escaped(status.message()).c_str());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return kUsage;
    case absl::StatusCode::kUnavailable:
      return kUnreachable;
    case absl::StatusCode::kNotFound:
      return kNotFound;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kUnimplemented:
      return kRefused;
    default:
      return kInternal;
  }
}

std::vector<Command> ReportCommands() {
  return {
      {"memory",
       "memory [--watch]",
       "Show who holds which bytes of the device's memory.",
       "  ebb memory\n  ebb memory --watch\n  ebb memory --json | jq .classes\n",
       0,
       0,
       {{"watch", "", "again and again, until interrupted"}},
       Memory},
      {"device",
       "device",
       "Show the device and how it is shared.",
       "  ebb device\n",
       0,
       0,
       {},
       Device},
      {"explain",
       "explain JOB",
       "Print a job's training graph, sub-models and memory plan.",
       "  ebb explain j-17 | less\n",
       1,
       1,
       {},
       Explain},
  };
}

}  // namespace ebb::cli
