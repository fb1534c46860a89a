// Language data: a flat array of token ids, cut into windows. Stateless.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/units.h"
#include "data/dataset.h"

namespace ebb::data {

// The elements of an array without a header, little-endian. A .npy says its own.
enum class TokenType { kUnsaid, kU16, kU32 };

struct TokenOptions {
  // kUnsaid: u16, after a look whether the bytes are something else (text, u32, a packed file).
  TokenType type = TokenType::kUnsaid;
  int64_t window = 0;  // tokens of one sample
  // [from, to) of the tokens, as fractions: two ranges that meet share no token and miss none.
  double from = 0;
  double to = 1;
};

// InvalidArgument: the window is not positive, or the range is not 0 <= from < to <= 1.
absl::Status CheckTokenOptions(const TokenOptions& options);

// One field, "tokens" [windows, window]: window w is the tokens from w * window of the range on;
// windows do not overlap, and what is left at the end of the range is in none. Types are
// widened as in other arrays: u16 to i32, u32 to i64. `bytes` is a one-dimensional .npy of
// integers, or the bare elements. InvalidArgument: damaged, another type or shape, a negative token
// (with its position), or fewer tokens than one window. ResourceExhausted: they unpack to more than
// `limit`.
absl::StatusOr<std::shared_ptr<const DataSet>> ParseTokens(absl::string_view bytes,
                                                           const TokenOptions& options,
                                                           Bytes limit = kMaxDataSetBytes,
                                                           const Reserve& reserve = {});

}  // namespace ebb::data
