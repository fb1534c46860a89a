#include "base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

namespace ebb {

void OpenStandardStreams() {
  for (int fd = open("/dev/null", O_RDWR); fd >= 0; fd = open("/dev/null", O_RDWR)) {
    if (fd <= STDERR_FILENO) continue;  // the lowest free number: it was closed
    close(fd);
    return;
  }
}

}  // namespace ebb
