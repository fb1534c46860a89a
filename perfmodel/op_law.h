// The law of the times of one family of kernels in one type on one device: a base of physics times
// what trees learned, trusted less where nothing was measured, never below the roofline. Immutable
// once fitted.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "perfmodel/estimate.h"
#include "perfmodel/hardware.h"
#include "perfmodel/op_terms.h"
#include "perfmodel/sample.h"
#include "perfmodel/trees.h"

namespace ebb::perfmodel {

// Where measured work lies (PlaceOf), and how far apart its members are.
struct Hull {
  std::vector<std::vector<double>> places;
  double usual = 0;  // nine of ten members have their fifth neighbour within this distance

  static Hull Of(std::vector<std::vector<double>> places);
  // How much farther the fifth nearest member is than usual: 0 within the hull, 1 twice as far.
  double Beyond(absl::Span<const double> place) const;
};

// 10 and 90 % quantiles of log(measured / predicted) of samples that were left out of the fit.
struct Spread {
  double low = 0, high = 0;
};

struct OpLaw {
  Terms terms = Terms::kShort;
  std::vector<double> coefficients;
  BoostedTrees residual;
  Hull hull;
  // The residual falls by exp(-fade * Hull::Beyond). The fade is the square of `scatter` over 5 %:
  // what predicts badly where it was measured says little about where it was not.
  double fade = 0;
  double scatter = 0;  // mean |log(measured / predicted)| of what was left out
  Spread with_residual, base_alone;
  Rates peak;  // the better of the data sheet's and the measured
  int64_t samples = 0;
  double mape = 0;  // of what was left out of the fit, %

  // At least 10 samples of one family and type; the order does not matter.
  static absl::StatusOr<OpLaw> Fit(const Hardware& hardware, absl::Span<const MeasuredWork> samples,
                                   uint64_t seed = 1);
  Estimate Predict(const Hardware& hardware, const Work& work) const;
};

}  // namespace ebb::perfmodel
