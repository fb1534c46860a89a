#include "proto/address.h"

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace ebb::proto {

std::string DefaultSocketPath() {
  const char* runtime_dir = std::getenv("XDG_RUNTIME_DIR");
  if (runtime_dir != nullptr && runtime_dir[0] == '/') {
    return absl::StrCat(runtime_dir, "/ebb/ebbd.sock");
  }
  return absl::StrCat("/tmp/ebb-", getuid(), "/ebbd.sock");
}

}  // namespace ebb::proto
