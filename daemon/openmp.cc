#include "daemon/openmp.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstring>

#include "base/log.h"

namespace ebb::daemon {
namespace {

// A tenth of GNU OpenMP's default: long enough for threads that run at once to meet without sleep.
constexpr const char* kSpinCount = "30000";

// A program is named after the file that was executed, which was /proc/self/exe.
void TakeOwnName() {
  char name[16] = {};
  prctl(PR_GET_NAME, name);
  if (std::strcmp(name, "exe") == 0) prctl(PR_SET_NAME, program_invocation_short_name);
}

}  // namespace

void LimitOpenMpSpinning(char** argv) {
  // What is set here is found set by the program started anew: it comes this way once.
  if (getenv("OMP_WAIT_POLICY") != nullptr || getenv("GOMP_SPINCOUNT") != nullptr) {
    TakeOwnName();
    return;
  }
  const char* why = "it was started by way of the dynamic loader";
  // Then /proc/self/exe is the loader, which would take our flags for its own.
  if (getauxval(AT_BASE) != 0) {
    if (setenv("GOMP_SPINCOUNT", kSpinCount, 1) == 0) execv("/proc/self/exe", argv);
    why = std::strerror(errno);
    unsetenv("GOMP_SPINCOUNT");
  }
  Log(LogLevel::kWarning,
      "ebbd: cannot start itself anew with GOMP_SPINCOUNT=%s (%s); jobs on several threads will be "
      "slow when anything else runs: set it in ebbd's environment",
      kSpinCount, why);
}

}  // namespace ebb::daemon
