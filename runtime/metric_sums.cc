#include "runtime/metric_sums.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace ebb::runtime {
namespace {

constexpr char kScores[] = "metric/auc.scores", kTargets[] = "metric/auc.targets";
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Element i of a metric.
double At(const graph::Value& value, const char* data, int64_t i) {
  if (value.type.dtype == graph::DType::kF64) {
    double number = 0;
    std::memcpy(&number, data + i * static_cast<int64_t>(sizeof(number)), sizeof(number));
    return number;
  }
  float number = 0;
  std::memcpy(&number, data + i * static_cast<int64_t>(sizeof(number)), sizeof(number));
  return number;
}

// Where the values of a metric lie.
struct Found {
  const graph::Value* value = nullptr;
  const char* data = nullptr;
};

}  // namespace

void MetricSums::Add(const StepProgram& step, absl::Span<const char> values,
                     const std::vector<Bytes>& offsets, int64_t valid) {
  Found scores, targets;
  for (size_t m = 0; m < step.metrics.size(); ++m) {
    const graph::Value& value = step.graph.value(step.metrics[m]);
    const char* data = values.data() + offsets[m].count();
    absl::string_view name = value.name;
    if (name == kScores) {
      scores = {&value, data};
    } else if (name == kTargets) {
      targets = {&value, data};
    } else if (absl::ConsumePrefix(&name, "metric/"); absl::ConsumeSuffix(&name, ".counts")) {
      std::vector<double>& counts = counts_[std::string(name)];
      counts.resize(static_cast<size_t>(graph::NumElements(value.type.shape)));
      for (size_t i = 0; i < counts.size(); ++i) {
        counts[i] += At(value, data, static_cast<int64_t>(i));
      }
    } else if (absl::ConsumeSuffix(&name, ".sum")) {
      sums_[std::string(name)].sum += At(value, data, 0);
    } else if (absl::ConsumeSuffix(&name, ".count")) {
      sums_[std::string(name)].count += At(value, data, 0);
    } else {  // already a mean: every step counts once
      sums_[std::string(name)].sum += At(value, data, 0);
      sums_[std::string(name)].count += 1;
    }
  }
  if (scores.value == nullptr || targets.value == nullptr) return;
  scored_ = true;
  const int64_t count = valid * ScoresPerRow(step);
  for (int64_t i = 0; i < count; ++i) {
    const double target = At(*targets.value, targets.data, i);
    if (target < 0) continue;  // a label that does not count
    scores_.emplace_back(static_cast<float>(At(*scores.value, scores.data, i)), target >= 0.5);
  }
}

std::map<std::string, double> MetricSums::Take() {
  std::map<std::string, double> means;
  for (auto& [name, sum] : sums_) {
    const double mean = sum.sum / sum.count;
    means[name] = name == "perplexity" ? std::exp(mean) : mean;
    sum = {};
  }
  for (auto& [name, counts] : counts_) {
    means[name] = MacroF1(counts);
    std::fill(counts.begin(), counts.end(), 0);
  }
  if (scored_) means["auc"] = AreaUnderRoc(&scores_);
  scores_.clear();
  return means;
}

double AreaUnderRoc(std::vector<std::pair<float, bool>>* scores) {
  if (std::any_of(scores->begin(), scores->end(), [](auto s) { return std::isnan(s.first); })) {
    return kNone;
  }
  std::sort(scores->begin(), scores->end());
  double negatives = 0, positives = 0, ordered = 0;  // pairs in the right order; ties half
  for (size_t i = 0; i < scores->size();) {
    double equal_negatives = 0, equal_positives = 0;
    const float score = (*scores)[i].first;
    for (; i < scores->size() && (*scores)[i].first == score; ++i) {
      ((*scores)[i].second ? equal_positives : equal_negatives) += 1;
    }
    ordered += equal_positives * (negatives + equal_negatives / 2);
    negatives += equal_negatives;
    positives += equal_positives;
  }
  return positives == 0 || negatives == 0 ? kNone : ordered / (positives * negatives);
}

double MacroF1(const std::vector<double>& counts) {
  const size_t classes = counts.size() / 3;
  double sum = 0, occur = 0;
  for (size_t c = 0; c < classes; ++c) {
    const double hits = counts[c], misses = counts[classes + c] + counts[2 * classes + c];
    if (hits + misses == 0) continue;
    sum += 2 * hits / (2 * hits + misses);
    occur += 1;
  }
  return sum / occur;
}

int64_t ScoresPerRow(const StepProgram& step) {
  const ValueId scores = step.graph.Find(kScores);
  if (!scores.valid()) return 0;
  const graph::Shape& shape = step.graph.value(scores).type.shape;
  return shape.empty() || shape[0] == 0 ? 0 : graph::NumElements(shape) / shape[0];
}

Bytes ScoreBytes(const StepProgram& evaluation, int64_t rows) {
  return Bytes(static_cast<int64_t>(sizeof(std::pair<float, bool>))) *
         (rows * ScoresPerRow(evaluation));
}

}  // namespace ebb::runtime
