// How far the time of a kernel alone on a simulated device is from what others measured on the GPU
// that it stands for, and what other split depths would give. Free functions without state.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/kernel_data.h"
#include "device/sim/profile.h"

namespace ebb::bench {

struct RooflineOptions {
  std::string folder;  // of the tables, see kernel_data.h
  std::string gpu = "Tesla_V100-PCIE-32GB";
  device::SimProfile profile;
};

// Simulated over measured time of some kernels.
struct RooflineFit {
  int64_t rows = 0;
  double ratio = 0;  // the median
  double off = 0;    // a factor: half of the rows are at most so far off, either way
};

// Kernels that are judged together.
enum class KernelSet { kLinear, kBmm, kConv, kConvProduct, kConvTransform };
inline constexpr std::array kKernelSets = {KernelSet::kLinear, KernelSet::kBmm, KernelSet::kConv,
                                           KernelSet::kConvProduct, KernelSet::kConvTransform};
absl::string_view Name(KernelSet set);

// By tiles of the output, before any split: fewer than each of these, and all others.
inline constexpr std::array<int64_t, 5> kGridClasses = {20, 40, 80, 160, 640};

// What is known of a table before it is compared.
struct RooflineTable {
  MeasuredOp op = MeasuredOp::kLinear;
  int64_t rows = 0;
  double fixed_us = 0;   // of every latency: the smallest of all
  int64_t compared = 0;  // rows of at least twice that
};

using RooflineFits = std::array<RooflineFit, kKernelSets.size()>;

struct RooflineDepth {
  int64_t depth = 0;       // 0: no split
  RooflineFits few_tiles;  // fewer than the device has slots
  RooflineFits reached;    // of these, what a split depth of kLeastDepth splits: the rows that tell
};
inline constexpr int64_t kLeastDepth = 512;

struct RooflineReport {
  std::vector<RooflineTable> tables;
  // By set and class of the grid.
  std::array<std::array<RooflineFit, kGridClasses.size() + 1>, kKernelSets.size()> by_grid;
  std::vector<RooflineDepth> by_depth;  // in steps of the square root of 2, and none
};

// The depth whose median ratio of `set` in `rows` is nearest to 1 (by its logarithm); nullopt:
// there are no such rows.
std::optional<int64_t> NearestDepth(const RooflineReport& report, RooflineFits RooflineDepth::*rows,
                                    KernelSet set);

// A latency is taken for its table's fixed part and the profile's time without kernel_overhead_us.
absl::StatusOr<RooflineReport> CompareRoofline(const RooflineOptions& options);

}  // namespace ebb::bench
