// What ebb-bench measured, as a table for people and as JSON for scripts. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "base/device_spec.h"
#include "bench/capacity.h"

namespace ebb::bench {

std::string Quoted(const std::string& text);  // as a JSON string

// How simulated figures are labelled: the first lines of a table, and the first fields of JSON.
std::string SimulatedHead(const DeviceSpec& device, absl::string_view what = "Simulated");
std::string SimulatedFields(const DeviceSpec& device);

std::string CapacityTable(const CapacityReport& report);
std::string CapacityJson(const CapacityReport& report);

std::string DecisionsTable(const std::map<int64_t, double>& micros, int runs);
std::string DecisionsJson(const std::map<int64_t, double>& micros, int runs);

}  // namespace ebb::bench
