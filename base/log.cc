#include "base/log.h"

#include <atomic>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/text.h"

namespace ebb {
namespace {
std::atomic<LogLevel> threshold{LogLevel::kInfo};
}  // namespace

void SetLogLevel(LogLevel level) { threshold.store(level, std::memory_order_relaxed); }

void LogLine(LogLevel level, absl::string_view message) {
  if (level < threshold.load(std::memory_order_relaxed)) return;
  static constexpr char kLetters[] = {'D', 'I', 'W', 'E'};
  const std::string stamp =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
  // One write a line, so that lines of different threads do not mix.
  const std::string line = absl::StrCat(
      stamp, " ", std::string(1, kLetters[static_cast<int>(level)]), " ", Escaped(message), "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace ebb
