#include "bench/roofline.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "bench/fidelity_run.h"
#include "device/sim/roofline.h"

namespace ebb::bench {
namespace {

using device::SimProfile;

constexpr int64_t kNoSplit = 1 << 30;

SimProfile WithDepth(SimProfile profile, int64_t depth) {
  profile.split_depth = profile.conv_split_depth = static_cast<double>(depth);
  return profile;
}

// kLeastDepth to 16 times as much, and kNoSplit.
std::vector<int64_t> Depths() {
  std::vector<int64_t> depths;
  for (int step = 0; step <= 8; ++step) {
    depths.push_back(std::llround(kLeastDepth * std::exp2(step / 2.0)));
  }
  depths.push_back(kNoSplit);
  return depths;
}

// Logarithms of simulated over measured times, gathered.
class Errors {
 public:
  void Add(double error) { errors_.push_back(error); }
  RooflineFit Fit() const {
    if (errors_.empty()) return {};
    std::vector<double> sizes;
    for (const double error : errors_) sizes.push_back(std::abs(error));
    return {static_cast<int64_t>(errors_.size()), std::exp(Median(errors_)),
            std::exp(Median(std::move(sizes)))};
  }

 private:
  std::vector<double> errors_;
};

bool Holds(KernelSet set, const MeasuredKernel& kernel) {
  switch (set) {
    case KernelSet::kLinear:
      return kernel.op == MeasuredOp::kLinear;
    case KernelSet::kBmm:
      return kernel.op == MeasuredOp::kBmm;
    case KernelSet::kConv:
      return kernel.op == MeasuredOp::kConv;
    case KernelSet::kConvProduct:
      return kernel.op == MeasuredOp::kConv && !kernel.transformed;
    case KernelSet::kConvTransform:
      return kernel.op == MeasuredOp::kConv && kernel.transformed;
  }
  return false;
}

size_t GridClass(int64_t tiles) {
  return std::upper_bound(kGridClasses.begin(), kGridClasses.end(), tiles) - kGridClasses.begin();
}

class Comparison {
 public:
  explicit Comparison(const SimProfile& profile)
      : profile_(profile), least_(WithDepth(profile, kLeastDepth)) {
    for (const int64_t depth : Depths()) profiles_.push_back(WithDepth(profile, depth));
    by_depth_.resize(profiles_.size());
  }

  void Add(const MeasuredKernel& kernel, double fixed_us) {
    const graph::Node& node = kernel.graph.nodes.back();
    const auto error = [&](const SimProfile& profile) {
      const double micros = device::CostAlone(profile, kernel.graph, node).micros;
      // What a kernel costs apart from its work is in the fixed part.
      return std::log((fixed_us + micros - profile.kernel_overhead_us) / kernel.micros);
    };
    const device::Grid tiles = device::GridOf(profiles_.back(), kernel.graph, node);
    const bool reached = device::GridOf(least_, kernel.graph, node).blocks > tiles.blocks;
    for (size_t s = 0; s < kKernelSets.size(); ++s) {
      if (!Holds(kKernelSets[s], kernel)) continue;
      by_grid_[s][GridClass(tiles.blocks)].Add(error(profile_));
      if (tiles.blocks >= tiles.slots) continue;
      for (size_t d = 0; d < profiles_.size(); ++d) {
        const double at_depth = error(profiles_[d]);
        by_depth_[d].few_tiles[s].Add(at_depth);
        if (reached) by_depth_[d].reached[s].Add(at_depth);
      }
    }
  }

  void Report(RooflineReport* report) const {
    for (size_t s = 0; s < kKernelSets.size(); ++s) {
      for (size_t c = 0; c < by_grid_[s].size(); ++c) {
        report->by_grid[s][c] = by_grid_[s][c].Fit();
      }
    }
    for (size_t d = 0; d < profiles_.size(); ++d) {
      RooflineDepth& depth = report->by_depth.emplace_back();
      const auto value = static_cast<int64_t>(profiles_[d].split_depth);
      depth.depth = value == kNoSplit ? 0 : value;
      for (size_t s = 0; s < kKernelSets.size(); ++s) {
        depth.few_tiles[s] = by_depth_[d].few_tiles[s].Fit();
        depth.reached[s] = by_depth_[d].reached[s].Fit();
      }
    }
  }

 private:
  struct DepthErrors {
    std::array<Errors, kKernelSets.size()> few_tiles, reached;
  };
  const SimProfile profile_, least_;
  std::vector<SimProfile> profiles_;  // the last one splits nothing
  std::array<std::array<Errors, kGridClasses.size() + 1>, kKernelSets.size()> by_grid_;
  std::vector<DepthErrors> by_depth_;
};

}  // namespace

absl::string_view Name(KernelSet set) {
  switch (set) {
    case KernelSet::kLinear:
      return "linear";
    case KernelSet::kBmm:
      return "bmm";
    case KernelSet::kConv:
      return "conv";
    case KernelSet::kConvProduct:
      return "conv_product";
    case KernelSet::kConvTransform:
      return "conv_transform";
  }
  return "";
}

std::optional<int64_t> NearestDepth(const RooflineReport& report, RooflineFits RooflineDepth::*rows,
                                    KernelSet set) {
  std::optional<int64_t> nearest;
  double least = 0;
  for (const RooflineDepth& depth : report.by_depth) {
    const RooflineFit& fit = (depth.*rows)[static_cast<size_t>(set)];
    if (fit.rows == 0) continue;
    const double error = std::abs(std::log(fit.ratio));
    if (!nearest.has_value() || error < least) {
      nearest = depth.depth;
      least = error;
    }
  }
  return nearest;
}

absl::StatusOr<RooflineReport> CompareRoofline(const RooflineOptions& options) {
  RooflineReport report;
  Comparison comparison(options.profile);
  for (const MeasuredOp op : {MeasuredOp::kLinear, MeasuredOp::kBmm, MeasuredOp::kConv}) {
    EBB_ASSIGN_OR_RETURN(const std::vector<MeasuredKernel> kernels,
                         ReadKernels(op, options.folder, options.gpu));
    RooflineTable table{.op = op, .rows = static_cast<int64_t>(kernels.size())};
    table.fixed_us = kernels[0].micros;
    for (const MeasuredKernel& kernel : kernels) {
      table.fixed_us = std::min(table.fixed_us, kernel.micros);
    }
    for (const MeasuredKernel& kernel : kernels) {
      if (kernel.micros < 2 * table.fixed_us) continue;
      ++table.compared;
      comparison.Add(kernel, table.fixed_us);
    }
    report.tables.push_back(table);
  }
  comparison.Report(&report);
  return report;
}

}  // namespace ebb::bench
