// What `ebb-bench sharing` measured, as a table for people and as JSON for scripts. Pure functions.
#pragma once

#include <string>

#include "bench/sharing.h"

namespace ebb::bench {

std::string SharingTable(const SharingReport& report);
std::string SharingJson(const SharingReport& report);

}  // namespace ebb::bench
