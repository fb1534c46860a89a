#include "perfmodel/trees.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "perfmodel/quantile.h"

namespace ebb::perfmodel {
namespace {

constexpr size_t kBins = 64;

// A feature's values as places among at most 64 thresholds.
struct Binned {
  std::vector<double> thresholds;  // bin i: at most thresholds[i]; the last bin has none
  std::vector<uint8_t> bins;
};

Binned Bin(absl::Span<const std::vector<double>> rows, size_t feature) {
  std::vector<double> sorted;
  for (const auto& row : rows) sorted.push_back(row[feature]);
  std::sort(sorted.begin(), sorted.end());
  std::vector<double> distinct = sorted;
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  Binned binned;
  const auto cut = [&](size_t at) { return 0.5 * (distinct[at] + distinct[at + 1]); };
  if (distinct.size() <= kBins) {
    for (size_t i = 0; i + 1 < distinct.size(); ++i) binned.thresholds.push_back(cut(i));
  } else {
    for (size_t i = 1; i < kBins; ++i) {
      const double value = sorted[i * sorted.size() / kBins];
      const auto at = static_cast<size_t>(
          std::lower_bound(distinct.begin(), distinct.end(), value) - distinct.begin());
      if (at + 1 >= distinct.size()) continue;
      const double threshold = cut(at);
      if (binned.thresholds.empty() || threshold > binned.thresholds.back()) {
        binned.thresholds.push_back(threshold);
      }
    }
  }
  for (const auto& row : rows) {
    binned.bins.push_back(static_cast<uint8_t>(
        std::lower_bound(binned.thresholds.begin(), binned.thresholds.end(), row[feature]) -
        binned.thresholds.begin()));
  }
  return binned;
}

struct Split {
  double gain = 0;
  size_t feature = 0, bin = 0;
};

// A leaf while its tree grows.
struct Leaf {
  int32_t node = 0;
  std::vector<uint32_t> rows;
  Split best;
};

class Grower {
 public:
  Grower(absl::Span<const std::vector<double>> rows, const TreeOptions& options)
      : options_(options) {
    for (size_t f = 0; f < rows[0].size(); ++f) features_.push_back(Bin(rows, f));
  }

  // One tree for the residuals; adds what it says to `fitted`.
  Tree Grow(absl::Span<const double> residual, std::vector<double>* fitted) const {
    std::vector<int32_t> sign(residual.size());
    for (size_t i = 0; i < residual.size(); ++i) {
      sign[i] = residual[i] > 0 ? 1 : residual[i] < 0 ? -1 : 0;
    }
    Tree tree(1);
    std::vector<Leaf> leaves(1);
    for (uint32_t i = 0; i < residual.size(); ++i) leaves[0].rows.push_back(i);
    leaves[0].best = BestSplit(leaves[0].rows, sign);
    while (static_cast<int>(leaves.size()) < options_.leaves) {
      const auto widest =
          std::max_element(leaves.begin(), leaves.end(),
                           [](const Leaf& a, const Leaf& b) { return a.best.gain < b.best.gain; });
      if (widest->best.gain <= 1e-9) break;
      Leaf right = Cut(&*widest, &tree);
      widest->best = BestSplit(widest->rows, sign);
      right.best = BestSplit(right.rows, sign);
      leaves.push_back(std::move(right));
    }
    std::vector<double> values;
    for (const Leaf& leaf : leaves) {
      values.clear();
      for (const uint32_t row : leaf.rows) values.push_back(residual[row]);
      const double value = options_.rate * MedianOf(std::move(values));
      tree[static_cast<size_t>(leaf.node)].value = value;
      for (const uint32_t row : leaf.rows) (*fitted)[row] += value;
    }
    return tree;
  }

 private:
  // The split that most reduces the squares of the signs; sums are whole, so order is no matter.
  Split BestSplit(const std::vector<uint32_t>& rows, const std::vector<int32_t>& sign) const {
    Split best;
    int64_t sum = 0;
    for (const uint32_t row : rows) sum += sign[row];
    const auto count = static_cast<int64_t>(rows.size());
    if (count < 2 * options_.least) return best;
    const auto square = [](int64_t total, int64_t n) {
      return static_cast<double>(total) * static_cast<double>(total) / static_cast<double>(n);
    };
    for (size_t f = 0; f < features_.size(); ++f) {
      const Binned& feature = features_[f];
      if (feature.thresholds.empty()) continue;
      std::array<int32_t, kBins + 1> sums{}, counts{};
      for (const uint32_t row : rows) {
        sums[feature.bins[row]] += sign[row];
        ++counts[feature.bins[row]];
      }
      int64_t left = 0, left_count = 0;
      for (size_t bin = 0; bin < feature.thresholds.size(); ++bin) {
        left += sums[bin], left_count += counts[bin];
        if (left_count < options_.least) continue;
        if (count - left_count < options_.least) break;
        const double gain =
            square(left, left_count) + square(sum - left, count - left_count) - square(sum, count);
        if (gain > best.gain + 1e-9) best = {gain, f, bin};
      }
    }
    return best;
  }

  // Leaves the left part in `leaf`, returns the right one.
  Leaf Cut(Leaf* leaf, Tree* tree) const {
    const Binned& feature = features_[leaf->best.feature];
    const auto at = static_cast<int32_t>(tree->size());
    TreeNode& node = (*tree)[static_cast<size_t>(leaf->node)];
    node.feature = static_cast<int32_t>(leaf->best.feature);
    node.threshold = feature.thresholds[leaf->best.bin];
    node.left = at, node.right = at + 1;
    tree->resize(tree->size() + 2);
    Leaf left{.node = at}, right{.node = at + 1};
    for (const uint32_t row : leaf->rows) {
      (feature.bins[row] <= leaf->best.bin ? left : right).rows.push_back(row);
    }
    *leaf = std::move(left);
    return right;
  }

  const TreeOptions& options_;
  std::vector<Binned> features_;
};

}  // namespace

BoostedTrees BoostedTrees::Fit(absl::Span<const std::vector<double>> rows,
                               absl::Span<const double> y, const TreeOptions& options) {
  EBB_CHECK(rows.size() == y.size());
  if (rows.empty()) return {};
  std::vector<double> values(y.begin(), y.end());
  const double start = MedianOf(std::move(values));
  const Grower grower(rows, options);
  std::vector<double> fitted(y.size(), start), residual(y.size());
  std::vector<Tree> trees;
  for (int i = 0; i < options.trees; ++i) {
    for (size_t row = 0; row < y.size(); ++row) residual[row] = y[row] - fitted[row];
    trees.push_back(grower.Grow(residual, &fitted));
    if (trees.back().size() == 1 && trees.back()[0].value == 0) break;  // nothing is left
  }
  return BoostedTrees(start, std::move(trees));
}

double BoostedTrees::Predict(absl::Span<const double> row) const {
  double sum = start_;
  for (const Tree& tree : trees_) {
    size_t at = 0;
    while (tree[at].feature >= 0) {
      const bool left = row[static_cast<size_t>(tree[at].feature)] <= tree[at].threshold;
      at = static_cast<size_t>(left ? tree[at].left : tree[at].right);
    }
    sum += tree[at].value;
  }
  return sum;
}

}  // namespace ebb::perfmodel
