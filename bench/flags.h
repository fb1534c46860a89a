// The flags of a command of ebb-bench: --NAME VALUE or --NAME=VALUE. Errors are InvalidArgument and
// say what to give. Free functions.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ebb::bench {

using Args = std::vector<std::string>;
using Flags = std::map<std::string, std::string>;

absl::StatusOr<Flags> ParseFlags(const Args& args, const std::set<std::string>& known);

// `fallback` when the flag is not given.
std::string TextOf(const Flags& flags, const std::string& flag, const std::string& fallback);
std::vector<std::string> ListOf(const Flags& flags, const std::string& flag);  // by commas
absl::StatusOr<int64_t> NumberOf(const Flags& flags, const std::string& flag, int64_t fallback,
                                 int64_t low, int64_t high);
absl::StatusOr<std::vector<int64_t>> NumbersOf(const Flags& flags, const std::string& flag,
                                               std::vector<int64_t> fallback, int64_t low,
                                               int64_t high);

absl::StatusOr<double> RealOf(const Flags& flags, const std::string& flag, double fallback,
                              double low, double high);

// The file that the flag names, if it is given, can be written: asked before the work whose figures
// would be lost. ParseFlags asks it of --json.
absl::Status CheckWritable(const Flags& flags, const std::string& flag);

// Writes `json` to the file of --json, if it is given. Unavailable: that cannot be written.
absl::Status WriteJson(const Flags& flags, const std::string& json);

}  // namespace ebb::bench
