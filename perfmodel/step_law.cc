#include "perfmodel/step_law.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "perfmodel/least_squares.h"

namespace ebb::perfmodel {
namespace {

constexpr double kLeastMargin = 0.05;  // of an estimate, either way: steps differ from run to run
constexpr double kOutside = 2;         // margins are so many times wider where it extrapolates
constexpr double kLeastMicros = 0.01;  // clocks tell no less

double AmountOf(const Work& work) { return IsProduct(work.family) ? work.flops : work.bytes; }

absl::Status Check(const StepSample& sample) {
  const auto bad = [&](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("batch ", sample.batch, ": ", what...));
  };
  if (sample.batch < 1) return bad("a batch is at least 1");
  if (!std::isfinite(sample.step_us) || sample.step_us <= 0) {
    return bad("a step of ", sample.step_us, " us; it must be finite and above 0");
  }
  if (sample.nodes.empty()) return bad("no node was timed");
  std::set<std::string> names;
  for (const NodeTime& node : sample.nodes) {
    if (!names.insert(node.name).second) return bad("node '", node.name, "' comes twice");
    if (!std::isfinite(node.micros) || node.micros < 0) {
      return bad("node '", node.name, "' took ", node.micros, " us");
    }
    const double amount = AmountOf(node.work);
    if (!std::isfinite(amount) || amount < 0) return bad("node '", node.name, "': no such work");
  }
  return absl::OkStatus();
}

absl::Status Check(absl::Span<const StepSample> samples) {
  if (samples.size() < 2) {
    return absl::InvalidArgumentError("a law of steps needs samples at two batches at least");
  }
  std::set<int64_t> batches;
  for (const StepSample& sample : samples) {
    EBB_RETURN_IF_ERROR(Check(sample));
    if (!batches.insert(sample.batch).second) {
      return absl::InvalidArgumentError(absl::StrCat("batch ", sample.batch, " comes twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

StepLaw::Line StepLaw::FitLine(absl::Span<const double> amounts, absl::Span<const double> micros) {
  std::vector<std::vector<double>> terms;
  std::vector<double> times;
  const auto [least, most] = std::minmax_element(amounts.begin(), amounts.end());
  const bool varies = *most > *least;
  for (size_t i = 0; i < amounts.size(); ++i) {
    terms.push_back({1.0});
    if (varies) terms.back().push_back(amounts[i]);
    times.push_back(std::max(micros[i], kLeastMicros));
  }
  const std::vector<double> fit = FitRelative(terms, times);
  return {.fixed = fit[0], .rate = varies ? fit[1] : 0, .least = *least, .most = *most};
}

absl::StatusOr<StepLaw> StepLaw::Fit(absl::Span<const StepSample> samples) {
  EBB_RETURN_IF_ERROR(Check(samples));
  StepLaw law;
  law.samples_ = samples.size();
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> by_name;
  std::vector<double> batches, beside;
  for (const StepSample& sample : samples) {
    double sum = 0;
    for (const NodeTime& node : sample.nodes) {
      auto& [amounts, micros] = by_name[node.name];
      amounts.push_back(AmountOf(node.work));
      micros.push_back(node.micros);
      sum += node.micros;
    }
    batches.push_back(static_cast<double>(sample.batch));
    beside.push_back(std::max(0.0, sample.step_us - sum));
  }
  law.beside_ = FitLine(batches, beside);
  const size_t low = std::min_element(batches.begin(), batches.end()) - batches.begin();
  const size_t high = std::max_element(batches.begin(), batches.end()) - batches.begin();
  for (const auto& [name, measured] : by_name) {
    const auto& [amounts, micros] = measured;
    if (amounts.size() != samples.size()) {
      return absl::InvalidArgumentError(absl::StrCat("node '", name, "' was timed at ",
                                                     amounts.size(), " of ", samples.size(),
                                                     " batches; the graphs differ"));
    }
    NodeLaw& node = law.nodes_[name];
    node.micros = FitLine(amounts, micros);
    node.each = (amounts[high] - amounts[low]) / (batches[high] - batches[low]);
    node.at_zero = amounts[low] - node.each * batches[low];
  }
  for (const StepSample& sample : samples) {
    law.worst_ = std::max(law.worst_, std::abs(law.Median(sample.batch) / sample.step_us - 1));
  }
  return law;
}

double StepLaw::Beside(int64_t batch) const { return beside_.At(static_cast<double>(batch)); }

double StepLaw::Median(int64_t batch) const {
  double sum = Beside(batch);
  for (const auto& [name, node] : nodes_) {
    const double amount = node.at_zero + node.each * static_cast<double>(batch);
    sum += node.micros.At(std::max(0.0, amount));
  }
  return sum;
}

absl::StatusOr<Estimate> StepLaw::Step(int64_t batch) const {
  if (batch < 1) {
    return absl::InvalidArgumentError(absl::StrCat("a batch of ", batch, "; at least 1"));
  }
  Estimate step{.median = Median(batch), .source = absl::StrCat("steps at ", samples_, " batches")};
  const auto at = static_cast<double>(batch);
  step.in_hull = at >= beside_.least && at <= beside_.most;
  const double margin = std::max(kLeastMargin, worst_) * (step.in_hull ? 1 : kOutside);
  step.low = step.median / (1 + margin);
  step.high = step.median * (1 + margin);
  return step;
}

absl::StatusOr<Estimate> StepLaw::Node(const std::string& name, const Work& work) const {
  const auto it = nodes_.find(name);
  if (it == nodes_.end()) {
    return absl::NotFoundError(absl::StrCat("node '", name, "' was not timed"));
  }
  const Line& line = it->second.micros;
  const double amount = AmountOf(work);
  if (!std::isfinite(amount) || amount < 0) {
    return absl::InvalidArgumentError(absl::StrCat("node '", name, "': no such work"));
  }
  Estimate node{.median = line.At(amount),
                .source = absl::StrCat("steps at ", samples_, " batches")};
  node.in_hull = amount >= line.least && amount <= line.most;
  const double margin = std::max(kLeastMargin, worst_) * (node.in_hull ? 1 : kOutside);
  node.low = node.median / (1 + margin);
  node.high = node.median * (1 + margin);
  return node;
}

}  // namespace ebb::perfmodel
