#include "perfmodel/iteration_law.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "perfmodel/least_squares.h"
#include "perfmodel/quantile.h"

namespace ebb::perfmodel {
namespace {

constexpr double kElement = 2;  // bytes of a number
constexpr int kRounds = 40;
constexpr size_t kFolds = 5;
// How much an interval grows for each doubling beyond what was fitted.
constexpr double kOutside = 0.5;

double Number(int64_t value) { return static_cast<double>(value); }

// What says how far a run is from those that were fitted.
std::vector<double> Extent(const TransformerRun& run) {
  return {Number(run.ranks()), Number(run.tensor), Number(run.data),     Number(run.pipeline),
          Number(run.hidden),  Number(run.layers), Number(run.sequence), Number(run.micro_batch)};
}

// All-reduces of a whole machine's ranks side by side take as long as one.
absl::StatusOr<double> AllReduce(const CollectivePredictor& fabric, int64_t ranks, double bytes) {
  EBB_ASSIGN_OR_RETURN(const Estimate time, fabric.Predict({.ranks = ranks, .bytes = bytes}));
  return time.median;
}

}  // namespace

absl::Status CheckRun(const TransformerRun& run) {
  for (const int64_t value : {run.batch, run.micro_batch, run.hidden, run.heads, run.layers,
                              run.sequence, run.vocabulary, run.tensor, run.data, run.pipeline}) {
    if (value < 1 || value > int64_t{1} << 40) {
      return absl::InvalidArgumentError(
          absl::StrCat("a run of a transformer has a number of ", value, "; all are 1 or above"));
    }
  }
  if (run.batch % (run.data * run.micro_batch) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("a batch of ", run.batch, " is not cut into ",
                                                   run.data, " ranks' micro-batches of ",
                                                   run.micro_batch));
  }
  return absl::OkStatus();
}

absl::StatusOr<IterationLaw::Terms> IterationLaw::TermsOf(const TransformerRun& run,
                                                          const CollectivePredictor& fabric) {
  EBB_RETURN_IF_ERROR(CheckRun(run));
  const double micro_batches = Number(run.batch / run.data / run.micro_batch);
  const double slots = micro_batches + Number(run.pipeline) - 1;
  const double layers = slots * Number(run.layers) / Number(run.pipeline);
  const double tokens = Number(run.micro_batch * run.sequence);
  const double hidden = Number(run.hidden), split = Number(run.tensor);
  const double passes = kElement * tokens * hidden;
  const double scores = kElement * Number(run.micro_batch * run.heads) / split *
                        Number(run.sequence) * Number(run.sequence);
  const double parameters =
      Number(run.layers) * 12 * hidden * hidden / split / Number(run.pipeline) +
      Number(run.vocabulary) * hidden / split;
  EBB_ASSIGN_OR_RETURN(const double tensor_us, AllReduce(fabric, run.tensor, passes));
  EBB_ASSIGN_OR_RETURN(const double data_us, AllReduce(fabric, run.data, kElement * parameters));
  Terms terms;
  terms.host = layers;
  terms.device = {layers * tokens * hidden * hidden / split,
                  layers * tokens * Number(run.sequence) * hidden / split,
                  layers * passes,
                  layers * passes / split,
                  layers * scores,
                  layers * 4 * tensor_us};  // two in forward, two in backward
  terms.rest = {1,
                slots * tokens * hidden * Number(run.vocabulary) / split,
                data_us,
                slots,
                run.pipeline > 1 ? slots * passes : 0,
                parameters};
  return terms;
}

double IterationLaw::At(const Coefficients& c, const Terms& terms) {
  return std::hypot(c.host * terms.host, Dot(c.device, terms.device)) + Dot(c.rest, terms.rest);
}

// The root's tangent at the last coefficients is linear in the next (it is of degree one, so that
// they touch); half a step at a time.
IterationLaw::Coefficients IterationLaw::FitTerms(absl::Span<const Terms> terms,
                                                  absl::Span<const double> micros) {
  const size_t device = terms[0].device.size(), rest = terms[0].rest.size();
  Coefficients now, best;
  double least = -1;
  for (int round = 0; round <= kRounds; ++round) {
    std::vector<std::vector<double>> rows;
    for (const Terms& one : terms) {
      double host_share = 1, device_share = 1;
      if (round > 0) {
        const double host_us = now.host * one.host, device_us = Dot(now.device, one.device);
        const double both = std::hypot(host_us, device_us);
        host_share = both > 0 ? host_us / both : 0;
        device_share = both > 0 ? device_us / both : 0;
      }
      std::vector<double>& row = rows.emplace_back();
      row.push_back(host_share * one.host);
      for (const double term : one.device) row.push_back(device_share * term);
      row.insert(row.end(), one.rest.begin(), one.rest.end());
    }
    const std::vector<double> x = FitRelative(rows, micros);
    const auto step = [round](double old, double next) {
      return round == 0 ? next : (old + next) / 2;
    };
    now.device.resize(device);
    now.rest.resize(rest);
    now.host = step(now.host, x[0]);
    for (size_t i = 0; i < device; ++i) now.device[i] = step(now.device[i], x[1 + i]);
    for (size_t i = 0; i < rest; ++i) now.rest[i] = step(now.rest[i], x[1 + device + i]);
    if (round == 0) {  // a sum has no say in which of the two is the longer: begin with half
      std::vector<double> ratios;
      for (size_t i = 0; i < terms.size(); ++i) ratios.push_back(micros[i] / terms[i].host);
      std::sort(ratios.begin(), ratios.end());
      now.host = std::max(now.host, QuantileOf(ratios, 0.5) / 2);
    }
    double error = 0;
    for (size_t i = 0; i < terms.size(); ++i) {
      error += std::pow(At(now, terms[i]) / micros[i] - 1, 2);
    }
    if (least < 0 || error < least) least = error, best = now;
  }
  return best;
}

absl::StatusOr<IterationLaw> IterationLaw::Fit(absl::Span<const MeasuredRun> runs,
                                               const CollectivePredictor& fabric) {
  if (runs.size() < kLeastRuns) {
    return absl::InvalidArgumentError(absl::StrCat("a law of iteration times needs ", kLeastRuns,
                                                   " measured runs or more; these are ",
                                                   runs.size()));
  }
  IterationLaw law;
  law.fabric_ = &fabric;
  std::vector<Terms> terms;
  std::vector<double> micros;
  for (const MeasuredRun& one : runs) {
    if (!(one.micros > 0) || !std::isfinite(one.micros)) {
      return absl::InvalidArgumentError("a measured run has no time above 0");
    }
    EBB_ASSIGN_OR_RETURN(Terms of, TermsOf(one.run, fabric));
    terms.push_back(std::move(of));
    micros.push_back(one.micros);
    const std::vector<double> extent = Extent(one.run);
    if (law.lows_.empty()) law.lows_ = law.highs_ = extent;
    for (size_t i = 0; i < extent.size(); ++i) {
      law.lows_[i] = std::min(law.lows_[i], extent[i]);
      law.highs_[i] = std::max(law.highs_[i], extent[i]);
    }
  }
  law.coefficients_ = FitTerms(terms, micros);
  for (size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<Terms> kept;
    std::vector<double> times;
    for (size_t i = 0; i < terms.size(); ++i) {
      if (i % kFolds == fold) continue;
      kept.push_back(terms[i]);
      times.push_back(micros[i]);
    }
    const Coefficients without = FitTerms(kept, times);
    for (size_t i = fold; i < terms.size(); i += kFolds) {
      law.left_out_.push_back(micros[i] / At(without, terms[i]));
    }
  }
  std::sort(law.left_out_.begin(), law.left_out_.end());
  return law;
}

absl::StatusOr<Estimate> IterationLaw::Predict(const TransformerRun& run) const {
  EBB_ASSIGN_OR_RETURN(const Terms terms, TermsOf(run, *fabric_));
  const std::vector<double> extent = Extent(run);
  double doublings = 0;
  for (size_t i = 0; i < extent.size(); ++i) {
    doublings =
        std::max({doublings, std::log2(extent[i] / highs_[i]), std::log2(lows_[i] / extent[i])});
  }
  Estimate estimate;
  estimate.median = At(coefficients_, terms);
  const double wider = 1 + kOutside * doublings;
  estimate.low = estimate.median * std::pow(std::min(1.0, QuantileOf(left_out_, 0.1)), wider);
  estimate.high = estimate.median * std::pow(std::max(1.0, QuantileOf(left_out_, 0.9)), wider);
  estimate.in_hull = doublings == 0;
  estimate.source = absl::StrCat("a law of ", left_out_.size(), " measured iterations");
  return estimate;
}

}  // namespace ebb::perfmodel
