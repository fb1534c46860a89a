// Shell-like patterns over names: parameter groups, file lists.
#pragma once

#include "absl/strings/string_view.h"

namespace ebb {

// True if all of `text` matches: '*' stands for any run of characters, '?' for any one; every other
// character for itself. Linear space, O(pattern x text) time.
bool GlobMatch(absl::string_view pattern, absl::string_view text);

}  // namespace ebb
