// One-line log messages to stderr: "2026-01-31T12:00:00Z I engine: ...". Thread-safe.
#pragma once

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace ebb {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Messages below `level` are dropped. Set once at start.
void SetLogLevel(LogLevel level);
void LogLine(LogLevel level, absl::string_view message);

template <class... Args>
void Log(LogLevel level, const absl::FormatSpec<Args...>& format, const Args&... args) {
  LogLine(level, absl::StrFormat(format, args...));
}

}  // namespace ebb
