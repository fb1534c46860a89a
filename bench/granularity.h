// What the number of sub-models brings: the summed progress of two equal jobs by how finely their
// steps are cut, on a simulated device, through the engine. Free functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/device_spec.h"

namespace ebb::bench {

struct GranularityOptions {
  std::string device = "sim:v100-16gb";                    // "sim:" and what device::OpenSim takes
  std::vector<std::string> models;                         // of the zoo; empty: all
  std::vector<int64_t> groups = {1, 2, 4, 8, 16, 32, 64};  // forward groups asked for
  double fraction = 0.8;                                   // of the largest batch of a job alone
  int64_t steps = 20;                                      // of each job
};

struct GranularityPoint {
  int64_t groups = 0;
  int64_t sub_models = 0;  // of a training step: a model may have no place for so many cuts
  double progress = 0;     // 2 x (time of a job alone, cut as the engine does) / (time of both)
  double concurrent = 0;   // share of the time in which both executed
};

struct GranularityRow {
  std::string name;
  int64_t batch = 0;
  std::vector<GranularityPoint> points;
};

struct GranularityReport {
  DeviceSpec device;
  GranularityOptions options;
  std::vector<GranularityRow> models;
};

absl::StatusOr<GranularityReport> MeasureGranularity(
    const GranularityOptions& options, const std::function<void(const std::string&)>& on_model);

}  // namespace ebb::bench
