// Where the daemon listens unless it is told otherwise: both ends of the wire must agree.
#pragma once

#include <string>

namespace ebb::proto {

// $XDG_RUNTIME_DIR/ebb/ebbd.sock, or /tmp/ebb-UID/ebbd.sock.
std::string DefaultSocketPath();

// Files cross the wire in chunks of this size; no message is larger than kMaxMessageBytes.
inline constexpr int kChunkBytes = 1 << 20;
inline constexpr int kMaxMessageBytes = 64 << 20;

}  // namespace ebb::proto
