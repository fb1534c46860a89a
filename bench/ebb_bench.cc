// ebb-bench: measures what co-training costs and brings, as a table and as JSON.
#include <cstdio>
#include <fstream>
#include <optional>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/status.h"
#include "bench/capacity.h"
#include "bench/decisions.h"
#include "bench/report.h"

namespace ebb::bench {
namespace {

constexpr char kHelp[] =
    "ebb-bench COMMAND [--FLAG VALUE ...]\n\n"
    "  capacity      largest batch at which equal jobs train together, on a simulated device\n"
    "    --device D    sim:PROFILE or sim:PROFILE+vector (sim:v100-16gb)\n"
    "    --jobs K      jobs at once (2)\n"
    "    --models A,B  models of the zoo (all)\n"
    "    --steps N     steps of every job (50)\n"
    "  scheduler     microseconds a scheduling decision\n"
    "    --jobs K,L    numbers of jobs (2,10,100,1000)\n"
    "    --runs N      the median of so many runs (5)\n\n"
    "  --json FILE   of every command: writes the figures there as well\n";

using Flags = std::map<std::string, std::string>;

absl::StatusOr<Flags> ParseFlags(const std::vector<std::string>& args,
                                 const std::set<std::string>& known) {
  Flags flags;
  for (size_t i = 0; i < args.size(); ++i) {
    absl::string_view arg = args[i];
    if (!absl::ConsumePrefix(&arg, "--")) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", args[i], "' is not a flag; ebb-bench --help lists them"));
    }
    const std::pair<std::string, std::string> parts = absl::StrSplit(arg, absl::MaxSplits('=', 1));
    if (!known.contains(parts.first)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--", parts.first, ": no flag of this command; ebb-bench --help lists them"));
    }
    std::string value = parts.second;
    if (arg.find('=') == absl::string_view::npos) {
      if (++i == args.size()) {
        return absl::InvalidArgumentError(absl::StrCat("--", parts.first, " needs a value"));
      }
      value = args[i];
    }
    if (!flags.emplace(parts.first, value).second) {
      return absl::InvalidArgumentError(absl::StrCat("--", parts.first, " is given twice"));
    }
  }
  return flags;
}

absl::StatusOr<int64_t> Number(const std::string& flag, absl::string_view text, int64_t low,
                               int64_t high) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < low || number > high) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag, ": '", text, "' is no number from ", low, " to ", high));
  }
  return number;
}

// `fallback` when the flag is not given.
absl::StatusOr<int64_t> NumberOf(const Flags& flags, const std::string& flag, int64_t fallback,
                                 int64_t low, int64_t high) {
  const auto it = flags.find(flag);
  return it == flags.end() ? fallback : Number(flag, it->second, low, high);
}

absl::Status Write(const Flags& flags, const std::string& json) {
  const auto it = flags.find("json");
  if (it == flags.end()) return absl::OkStatus();
  std::ofstream file(it->second, std::ios::binary);
  file << json;
  file.close();
  if (file.fail()) {
    return absl::UnavailableError(
        absl::StrCat("--json: cannot write '", it->second, "'; does its folder exist?"));
  }
  return absl::OkStatus();
}

absl::Status Capacity(const std::vector<std::string>& args) {
  EBB_ASSIGN_OR_RETURN(const Flags flags,
                       ParseFlags(args, {"device", "jobs", "models", "steps", "json"}));
  CapacityOptions options;
  if (const auto it = flags.find("device"); it != flags.end()) options.device = it->second;
  if (const auto it = flags.find("models"); it != flags.end()) {
    options.models = absl::StrSplit(it->second, ',');
  }
  EBB_ASSIGN_OR_RETURN(const int64_t jobs, NumberOf(flags, "jobs", options.jobs, 2, 64));
  options.jobs = static_cast<int>(jobs);
  // With fewer steps the first job could end before the last has joined.
  EBB_ASSIGN_OR_RETURN(options.steps, NumberOf(flags, "steps", options.steps, 3, 1'000'000));
  EBB_ASSIGN_OR_RETURN(const CapacityReport report,
                       MeasureCapacity(options, [](const std::string& model) {
                         std::fprintf(stderr, "%s ...\n", model.c_str());
                       }));
  std::fputs(CapacityTable(report).c_str(), stdout);
  return Write(flags, CapacityJson(report));
}

absl::Status Decisions(const std::vector<std::string>& args) {
  EBB_ASSIGN_OR_RETURN(const Flags flags, ParseFlags(args, {"jobs", "runs", "json"}));
  std::vector<int64_t> jobs = {2, 10, 100, 1000};
  if (const auto it = flags.find("jobs"); it != flags.end()) {
    jobs.clear();
    for (const absl::string_view text : absl::StrSplit(it->second, ',')) {
      EBB_ASSIGN_OR_RETURN(const int64_t count, Number("jobs", text, 1, 100'000));
      jobs.push_back(count);
    }
  }
  EBB_ASSIGN_OR_RETURN(const int64_t runs, NumberOf(flags, "runs", 5, 1, 1000));
  EBB_ASSIGN_OR_RETURN(const auto micros, MeasureDecisions(jobs, static_cast<int>(runs)));
  std::fputs(DecisionsTable(micros, static_cast<int>(runs)).c_str(), stdout);
  return Write(flags, DecisionsJson(micros, static_cast<int>(runs)));
}

absl::Status Run(const std::vector<std::string>& args) {
  if (args.empty()) {
    return absl::InvalidArgumentError("give a command; ebb-bench --help lists them");
  }
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (args[0] == "capacity") return Capacity(rest);
  if (args[0] == "scheduler") return Decisions(rest);
  return absl::InvalidArgumentError(
      absl::StrCat("there is no command '", args[0], "'; there are capacity and scheduler"));
}

int Main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (!args.empty() && (args[0] == "--help" || args[0] == "-h")) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  SetLogLevel(LogLevel::kWarning);
  const absl::Status status = Run(args);
  if (status.ok()) return 0;
  std::fprintf(stderr, "ebb-bench: %s\n", std::string(status.message()).c_str());
  return status.code() == absl::StatusCode::kInvalidArgument ? 2 : 1;
}

}  // namespace
}  // namespace ebb::bench

int main(int argc, char** argv) { return ebb::bench::Main(argc, argv); }
