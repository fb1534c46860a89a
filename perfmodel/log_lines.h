// Lines of logs that several processes wrote, as launchers print them. Free functions without
// state.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace ebb::perfmodel {

// The line without the prefix of mpirun ("[1,0]<stdout>:") or srun ("0: "), and without a carriage
// return.
absl::string_view WithoutPrefix(absl::string_view line);

std::vector<absl::string_view> Words(absl::string_view line);  // between blanks

bool IsWhole(absl::string_view word);  // digits alone

}  // namespace ebb::perfmodel
