// What sharing a device brings: mixes of jobs of the zoo under Ebb and under others' policies, on a
// simulated device, in both overlap models. Free functions.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/sharing_runs.h"
#include "device/sim/profile.h"

namespace ebb::bench {

enum class Mixes { kDistinct, kEqual };  // jobs of different models, or of one

struct SharingOptions {
  std::string device = "sim:v100-16gb";  // without an overlap model
  std::string constants;                 // a file that replaces some of the profile's; empty: none
  int jobs = 2;
  double fraction = 0.9;            // of each model's largest batch alone
  std::optional<int64_t> batch;     // instead
  std::vector<std::string> models;  // of the zoo; empty: SharingModels()
  Mixes mixes = Mixes::kDistinct;
  int most_mixes = 0;  // drawn at random; 0: all pairs, 20 of more jobs
  uint64_t seed = 1;
  int64_t steps = 100;       // of the longest job of a mix, that are measured
  bool sensitivity = false;  // also with launch cost and bandwidth halved and doubled
  SharingAssumptions assumptions;
};

// The eight models that the mixes are made of; ResNet-152 is left out, as it is like ResNet-50.
const std::vector<std::string>& SharingModels();

constexpr std::array kOverlapModels = {device::OverlapModel::kSlots, device::OverlapModel::kVector};
using BothResults = std::array<MixResult, kOverlapModels.size()>;

struct MixRow {
  std::vector<MixJob> jobs;
  std::map<std::string, BothResults> results;  // by policy
};

// Over the mixes that the policy can run.
struct PolicySummary {
  int mixes = 0, infeasible = 0;
  double geomean = 0, min = 0, max = 0;  // of the sum of progress
  double worst_share = 0;                // the least of any job
  double pool_use = 0;                   // mean
  double concurrent = 0;                 // mean
  int64_t dropped_steps = 0;
  double least_steps = 0;
  // Of its sum over that of time sharing, where both can run; 0: nowhere.
  double gain = 0, least_gain = 0;
  double over_engine = 0;  // geomean of the sum with the engine's own rates alone for measure
};

struct SensitivityRow {
  std::string change;                                                    // "launch_us x 0.5"
  std::array<double, kOverlapModels.size()> gain = {}, least_gain = {};  // of ebb
};

// A job of the mixes, alone.
struct AloneRow {
  MixJob job;
  int64_t solo_batch = 0;  // the largest of its model
  Bytes resident, peak;
  double micros = 0;  // of a step
  double fill = 0;    // bytes of the step that live, mean over time / peak
  double engine = 0;  // the engine's rate / this one: what it does not hide of a batch's copies
};

struct SharingReport {
  SharingOptions options;
  device::SimProfile profile;
  Bytes pool;
  std::vector<AloneRow> alone;
  std::vector<MixRow> mixes;
  std::vector<SensitivityRow> sensitivity;
};

PolicySummary Summarize(const SharingReport& report, const std::string& policy, size_t overlap);

// The mixes that options ask for, as models.
std::vector<std::vector<std::string>> DrawMixes(const SharingOptions& options);

// `on_mix` is told of each mix before it is measured. InvalidArgument: what the options name is not
// there or does not make sense.
absl::StatusOr<SharingReport> MeasureSharing(const SharingOptions& options,
                                             const std::function<void(const std::string&)>& on_mix);

}  // namespace ebb::bench
