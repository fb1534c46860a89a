// The commands of ebb-bench, a row each: what --help says of it, and what runs it. A command prints
// its table to standard output and writes the same figures as JSON where --json says.
// InvalidArgument and NotFound blame what was given (exit code 2), all else the run (1).
#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "bench/flags.h"

namespace ebb::bench {

struct Command {
  const char* name;
  const char* help;  // lines, without --json
  absl::Status (*run)(const Args& args);
};

absl::Status Capacity(const Args& args);
absl::Status Decisions(const Args& args);
absl::Status Sharing(const Args& args);
absl::Status Fidelity(const Args& args);     // fidelity_command.cc
absl::Status Allocators(const Args& args);   // allocator_command.cc
absl::Status Granularity(const Args& args);  // granularity_command.cc
absl::Status Predict(const Args& args);      // predict/command.cc
absl::Status Roofline(const Args& args);     // roofline_command.cc
absl::Status Together(const Args& args);     // together_command.cc
absl::Status SoakMixes(const Args& args);    // soak_command.cc

}  // namespace ebb::bench
