// How ebbd is started: command line flags over a YAML file of the same names. Plain data and one
// pure parser, so that tests drive it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/device_spec.h"
#include "base/log.h"
#include "base/units.h"
#include "runtime/co_run.h"
#include "scheduler/scheduler.h"

namespace ebb::daemon {

struct Config {
  std::string socket;  // path; "" = none
  std::string listen;  // host:port; "" = none
  bool insecure_any_address = false;
  Bytes memory;  // 0: not given, see PoolSize()
  std::string device = "cpu";
  std::vector<std::string> data_roots;
  std::string state_dir;
  int threads_per_stream = 0;  // 0: the device's default
  int max_lanes = 0;           // 0: as many as the device can run
  scheduler::Policy policy = scheduler::Policy::kFair;
  runtime::CoRunMode co_run = runtime::CoRunMode::kAuto;
  Bytes quantum;  // 0: from the pool
  int max_in_flight = 2;
  Bytes upload_limit = GiB(16);
  Bytes store_limit = GiB(256);
  Bytes host_memory;  // for the files of jobs; 0: half of what the pool leaves
  LogLevel log_level = LogLevel::kInfo;
};

struct CommandLine {
  Config config;
  std::optional<std::string> print;  // --help or --version: this text, then exit
};

// `args` without the program's name. InvalidArgument names the flag, or the line of the file.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& args);

// What to take of the device: what was asked for, else 4 GiB of the host's memory, or all of a
// device's own.
Bytes PoolSize(const Config& config, const DeviceSpec& device);

// --host_memory against the `machine`'s: InvalidArgument where a device that computes would let
// jobs take more than there is, as for --memory. Else a warning where that may run out all the
// same, or "".
absl::StatusOr<std::string> CheckHostMemory(const Config& config, const DeviceSpec& device,
                                            Bytes machine);

// The address may be listened on: a loopback address, or any if the config says so.
absl::Status CheckListenAddress(const std::string& address, bool any_address);

}  // namespace ebb::daemon
