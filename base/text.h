// Text of unknown origin (names in files, arguments, messages that quote them) on its way to a
// terminal, a log or a message that must be UTF-8. Free functions without state.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace ebb {

// Well-formed UTF-8: no surrogates, no overlong forms.
bool IsUtf8(absl::string_view text);

// UTF-8 without characters that a terminal acts on or that hide or reorder what stands beside them:
// controls (also C1 and DEL), line and paragraph separators, bidirectional overrides and isolates.
bool IsPrintable(absl::string_view text);

// The same text with what is not printable as \n, \t, \x1b, \u202e. Printable text is unchanged.
std::string Escaped(absl::string_view text);
// Line breaks stay as they are.
std::string EscapedLines(absl::string_view text);

}  // namespace ebb
