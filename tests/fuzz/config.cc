// Command lines of the daemon: one flag a line.
#include "daemon/config.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<std::string> args = absl::StrSplit(ebb::fuzz::Text(data, size), '\n');
  for (const std::string& arg : args) {
    if (absl::StrContains(arg, "config")) return 0;  // would read files
  }
  ebb::daemon::ParseCommandLine(args).IgnoreError();
  return 0;
}
