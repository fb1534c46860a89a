// EBB_CHECK ends the process when one of our own invariants is broken. Never use it on user input.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace ebb {
[[noreturn]] inline void CheckFailed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, what);
  std::fflush(stderr);
  std::abort();
}
}  // namespace ebb

#define EBB_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::ebb::CheckFailed(__FILE__, __LINE__, #condition))
