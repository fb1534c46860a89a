// Small gradient-boosted regression trees: what a law of times leaves unexplained. Least absolute
// errors; equal data give equal trees whatever the order of the rows. Immutable once fitted.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace ebb::perfmodel {

struct TreeOptions {
  int trees = 300;
  int leaves = 15;     // of a tree, at most
  double rate = 0.06;  // of what a tree would correct, this share
  int least = 5;       // rows of a leaf
};

struct TreeNode {
  int32_t feature = -1;         // -1: a leaf
  double threshold = 0;         // at most: left
  int32_t left = 0, right = 0;  // above this node's own place
  double value = 0;             // of a leaf
};
using Tree = std::vector<TreeNode>;

class BoostedTrees {
 public:
  BoostedTrees() = default;  // answers 0
  BoostedTrees(double start, std::vector<Tree> trees) : start_(start), trees_(std::move(trees)) {}

  // Rows of equal length. After J. Friedman, "Greedy function approximation" (2001), LAD_TreeBoost,
  // with splits at 64 quantiles and leaves grown best first (as LightGBM does).
  static BoostedTrees Fit(absl::Span<const std::vector<double>> rows, absl::Span<const double> y,
                          const TreeOptions& options);

  double Predict(absl::Span<const double> row) const;
  double start() const { return start_; }
  const std::vector<Tree>& trees() const { return trees_; }

 private:
  double start_ = 0;
  std::vector<Tree> trees_;
};

}  // namespace ebb::perfmodel
