// A law of a transformer's iteration time, fitted to iterations that were measured on a machine:
// for people who have a table of runs and no samples of kernels. Immutable; may be shared between
// threads.
//
// With m micro-batches, p stages and L layers there are m + p - 1 slots of L/p layers (1F1B):
//   t = slots x L/p x sqrt(host^2 + device^2) + slots x (head + between stages) + once
// `host` is what a layer's launches take, `device` the sum of its products, elementwise passes,
// softmax and the tensor ranks' all-reduces; whichever is longer hides the other, nearly. `once`
// is the gradients' all-reduce, the optimizer and a constant. The coefficients, none negative, are
// fitted to relative errors.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "perfmodel/estimate.h"
#include "perfmodel/predictor.h"

namespace ebb::perfmodel {

// A decoder of equal layers, trained in 2-byte numbers as Megatron does.
struct TransformerRun {
  int64_t batch = 1;        // sequences of an iteration, all ranks
  int64_t micro_batch = 1;  // sequences
  int64_t hidden = 1, heads = 1, layers = 1, sequence = 1;
  int64_t vocabulary = 51200;
  int64_t tensor = 1, data = 1, pipeline = 1;
  int64_t ranks() const { return tensor * data * pipeline; }
};
// InvalidArgument: a number below 1, a batch that data x micro_batch does not divide.
absl::Status CheckRun(const TransformerRun& run);

struct MeasuredRun {
  TransformerRun run;
  double micros = 0;
};

class IterationLaw {
 public:
  static constexpr size_t kLeastRuns = 12;
  // `fabric` answers for all-reduces of the ranks that the runs have; it must outlive the law.
  // InvalidArgument: fewer than kLeastRuns, times that are not above 0.
  static absl::StatusOr<IterationLaw> Fit(absl::Span<const MeasuredRun> runs,
                                          const CollectivePredictor& fabric);

  // The interval is that of runs left out of the fit, a fifth at a time. Not in_hull, and wider,
  // beyond the ranks, sizes and widths that were fitted.
  absl::StatusOr<Estimate> Predict(const TransformerRun& run) const;

 private:
  struct Terms {
    double host = 0;
    std::vector<double> device, rest;
  };
  struct Coefficients {
    double host = 0;
    std::vector<double> device, rest;
  };
  IterationLaw() = default;
  static absl::StatusOr<Terms> TermsOf(const TransformerRun& run,
                                       const CollectivePredictor& fabric);
  static Coefficients FitTerms(absl::Span<const Terms> terms, absl::Span<const double> micros);
  static double At(const Coefficients& c, const Terms& terms);

  const CollectivePredictor* fabric_ = nullptr;
  Coefficients coefficients_;
  std::vector<double> lows_, highs_;  // of what was fitted: ranges of Extent
  std::vector<double> left_out_;      // measured / predicted, sorted
};

}  // namespace ebb::perfmodel
