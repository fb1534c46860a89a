// Content hashes: graphs, weights and data sets are stored under the SHA-256 of their bytes.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace ebb {

// 64 lower-case hexadecimal digits.
std::string Sha256Hex(absl::string_view bytes);

// The same over a stream of chunks. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void Update(absl::string_view bytes);
  // The digest of all bytes so far; call once, last.
  std::string HexDigest();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebb
