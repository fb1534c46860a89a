// The commands of `ebb`: a table of names, flags, help and functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/args.h"
#include "client/client.h"
#include "client/local_file.h"

namespace ebb::cli {

// Exit codes; docs/cli.md lists them.
inline constexpr int kOk = 0;
inline constexpr int kJobFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kUnreachable = 3;
inline constexpr int kNotFound = 4;
inline constexpr int kRefused = 5;
inline constexpr int kInternal = 6;

enum class OutputStyle : uint8_t { kText, kJson };

struct Context {
  const Args& args;
  client::Client& client;
  bool json = false;
};

struct Command {
  const char* name;
  const char* usage;     // "submit SPEC... [flags]"
  const char* summary;   // one line
  const char* examples;  // lines of the help
  size_t min_args;
  size_t max_args;
  std::vector<Flag> flags;
  int (*run)(const Context&);
  // Instead of `run`: what needs no daemon.
  int (*run_alone)(const Args& args, OutputStyle style) = nullptr;
};

// In the order of the help.
std::vector<Command> JobCommands();        // ps, show, update, cancel, pause, resume, rm, why
std::vector<Command> SubmitCommands();     // submit, watch
std::vector<Command> EstimateCommands();   // estimate
std::vector<Command> FeedCommands();       // feed
std::vector<Command> PredictCommands();    // predict
std::vector<Command> FileCommands();       // data, get
std::vector<Command> ReportCommands();     // memory, device, explain
std::vector<Command> FabricCommands();     // fabric
std::vector<Command> ShardCommands();      // shard
std::vector<Command> CalibrateCommands();  // calibrate

// Prints "ebb: message" to stderr; the exit code that fits.
int Fail(const absl::Status& status);
// A job's result, whole or not at all.
absl::StatusOr<v1::FetchResponse::Header> FetchTo(client::OutputFile* file,
                                                  const v1::FetchRequest& what,
                                                  client::Client* client);
// Watches jobs until all have ended; progress on a terminal, lines in a pipe.
int WatchJobs(const Context& context, const std::vector<std::string>& jobs);

}  // namespace ebb::cli
