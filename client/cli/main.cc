// ebb: the command line of the daemon.
#include <google/protobuf/stubs/logging.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/standard_streams.h"
#include "client/cli/commands.h"
#include "proto/names.h"

namespace ebb::cli {
namespace {

std::vector<Command> AllCommands() {
  std::vector<Command> all;
  for (auto commands :
       {SubmitCommands(), EstimateCommands(), JobCommands(), FeedCommands(), PredictCommands(),
        FileCommands(), ReportCommands(), FabricCommands(), ShardCommands(), CalibrateCommands()}) {
    all.insert(all.end(), commands.begin(), commands.end());
  }
  for (Command& command : all) {
    command.flags.push_back({"json", "", "print JSON"});
    if (command.run != nullptr) {
      command.flags.push_back({"server", "ADDRESS",
                               "socket path or HOST:PORT (default $EBB_SERVER, or ebbd's socket)"});
    }
    command.flags.push_back({"help", "", "this help"});
  }
  return all;
}

std::string Pad(std::string text, size_t width) {
  text.resize(std::max(text.size() + 1, width), ' ');
  return text;
}

std::string Help(const std::vector<Command>& commands) {
  std::string text =
      "ebb: trains many neural networks at once on one device (client of ebbd).\n\nUsage: ebb "
      "COMMAND [flags]\n\n";
  for (const Command& command : commands) {
    absl::StrAppend(&text, "  ", Pad(command.name, 10), command.summary, "\n");
  }
  absl::StrAppend(
      &text,
      "\nJOB is an id (j-17 or 17) or a name that only one job has. Every command takes --json, "
      "--help (with\nexamples) and, where it asks ebbd, --server ADDRESS.\n\n"
      "Exit codes: 0 done, 1 a job failed or was cancelled, 2 bad usage or job file, 3 ebbd "
      "cannot be reached,\n4 not found, 5 refused by ebbd, 6 anything else.\n");
  return text;
}

std::string Help(const Command& command) {
  std::string text = absl::StrCat(command.summary, "\n\nUsage: ebb ", command.usage, "\n\n");
  for (const Flag& flag : command.flags) {
    const std::string name = flag.name;
    absl::StrAppend(&text, "  ",
                    Pad(absl::StrCat(name.size() == 1 ? "-" : "--", name, " ", flag.value), 24),
                    flag.help, "\n");
  }
  absl::StrAppend(&text, "\nExamples:\n", command.examples);
  return text;
}

int UsageError(const std::string& message) { return Fail(absl::InvalidArgumentError(message)); }

int Main(std::vector<std::string> words) {
  const std::vector<Command> commands = AllCommands();
  // "ebb --server X ps" is the same as "ebb ps --server X".
  std::vector<std::string> front;
  while (!words.empty() && words[0].starts_with("--") && words[0] != "--help" &&
         words[0] != "--version") {
    const bool takes_value = words[0] == "--server";
    const size_t count = takes_value && words.size() > 1 ? 2 : 1;
    front.insert(front.end(), words.begin(), words.begin() + static_cast<ptrdiff_t>(count));
    words.erase(words.begin(), words.begin() + static_cast<ptrdiff_t>(count));
  }
  if (words.empty() && front.empty()) {
    std::fputs(Help(commands).c_str(), stderr);
    return kUsage;
  }
  if (words.empty()) return UsageError("no command; ebb --help lists them");
  const std::string name = words[0];
  if (name == "--help" || name == "-h" || name == "help") {
    std::fputs(Help(commands).c_str(), stdout);
    return kOk;
  }
  if (name == "--version") {
    std::printf("ebb %s\n", EBB_VERSION);
    return kOk;
  }
  const Command* command = nullptr;
  std::vector<std::string> names;
  for (const Command& candidate : commands) {
    names.push_back(candidate.name);
    if (name == candidate.name) command = &candidate;
  }
  if (command == nullptr) {
    const std::string nearest = proto::Nearest(name, names);
    return UsageError(absl::StrCat("unknown command '", name, "'",
                                   nearest.empty()
                                       ? "; ebb --help lists them"
                                       : absl::StrCat("; did you mean '", nearest, "'?")));
  }
  words.erase(words.begin());
  words.insert(words.begin(), front.begin(), front.end());
  const auto args = Args::Parse(words, command->flags);
  if (!args.ok()) {
    return UsageError(
        absl::StrCat(name, ": ", args.status().message(), "; see ebb ", name, " --help"));
  }
  if (args->Has("help")) {
    std::fputs(Help(*command).c_str(), stdout);
    return kOk;
  }
  const size_t count = args->positional().size();
  if (count < command->min_args || count > command->max_args) {
    return UsageError(absl::StrCat("usage: ebb ", command->usage));
  }
  if (command->run_alone != nullptr) {
    return command->run_alone(*args, args->Has("json") ? OutputStyle::kJson : OutputStyle::kText);
  }
  const auto client = client::Client::Connect(args->Get("server"));
  if (!client.ok()) return Fail(client.status());
  return command->run({*args, **client, args->Has("json")});
}

// False, with a message, when what was printed did not get where it should.
bool FlushOutput() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  std::fprintf(stderr, "ebb: cannot write the output: %s\n", std::strerror(errno));
  return false;
}

}  // namespace
}  // namespace ebb::cli

int main(int argc, char** argv) {
  try {
    ebb::OpenStandardStreams();
    google::protobuf::SetLogHandler(nullptr);  // what it would say comes as a status too
    const int code = ebb::cli::Main(std::vector<std::string>(argv + 1, argv + argc));
    return ebb::cli::FlushOutput() || code != ebb::cli::kOk ? code : ebb::cli::kInternal;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ebb: %s\n", error.what());
    return ebb::cli::kInternal;
  }
}
