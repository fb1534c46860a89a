// Protocol buffers' wire format: enough of it for one format of traces. Free functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ebb::perfmodel {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct WireField {
  int number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;            // of all but kBytes
  absl::string_view bytes = {};  // of kBytes, within the text
};

class WireReader {
 public:
  explicit WireReader(absl::string_view text) : text_(text) {}

  bool done() const { return at_ == text_.size(); }
  size_t at() const { return at_; }
  // InvalidArgument with the byte: cut off, or no such format.
  absl::StatusOr<WireField> Next();
  absl::StatusOr<uint64_t> Varint();
  // As many bytes as a varint before them says.
  absl::StatusOr<absl::string_view> Delimited();

 private:
  absl::StatusOr<absl::string_view> Take(uint64_t size);

  absl::string_view text_;
  size_t at_ = 0;
};

void AppendVarint(uint64_t value, std::string& out);
void AppendVarintField(int number, uint64_t value, std::string& out);
void AppendFixedField(int number, WireType type, uint64_t value, std::string& out);
void AppendBytesField(int number, absl::string_view bytes, std::string& out);

}  // namespace ebb::perfmodel
