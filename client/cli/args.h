// The command line of one `ebb` command, split into flags and positional arguments.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ebb::cli {

struct Flag {
  const char* name;   // without dashes; "o" also stands for -o
  const char* value;  // how the value is called; "" = a switch
  const char* help;
};

class Args {
 public:
  // Flags may stand anywhere; after "--" all is positional. InvalidArgument names the flag and
  // suggests the nearest one.
  static absl::StatusOr<Args> Parse(const std::vector<std::string>& words,
                                    const std::vector<Flag>& flags);

  bool Has(const std::string& flag) const { return values_.contains(flag); }
  // The last value given, or `fallback`.
  std::string Get(const std::string& flag, const std::string& fallback = "") const;
  std::vector<std::string> All(const std::string& flag) const;
  const std::vector<std::string>& positional() const { return positional_; }

 private:
  std::map<std::string, std::vector<std::string>> values_;
  std::vector<std::string> positional_;
};

}  // namespace ebb::cli
