// How long look-ups in embedding tables take: bytes that come from each level of the memory, by how
// often rows are used again. Immutable once fitted.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "perfmodel/estimate.h"
#include "perfmodel/hardware.h"
#include "perfmodel/reuse.h"

namespace ebb::perfmodel {

// What a step looks up in one table: `look_ups` rows of `width` elements, summed in `bags`.
struct LookUp {
  double rows = 0, width = 0;  // of the table
  double look_ups = 0, bags = 0;
  double element_bytes = 4;
  double cache_share = 1;  // part of the caches that these look-ups have
  Popularity popularity;   // of its rows

  double row_bytes() const { return width * element_bytes; }
};

enum class LookUpPass {
  kForward,
  kBackward,  // makes the gradient of the whole table, zeros where nothing was looked up
};

struct LookUpSample {
  LookUp look_up;
  LookUpPass pass = LookUpPass::kForward;
  double micros = 0;
};

class LookUpModel {
 public:
  // From measurements on one device. Which caches it has need not be said: what a row from beyond
  // 256 KiB, 512 KiB, ... 128 MiB costs more is found from the samples, and so is what a page of
  // 4 KiB beyond 256, 512, ... 8192 of them does. At least 40 samples of each pass that is to be
  // predicted; else InvalidArgument.
  static absl::StatusOr<LookUpModel> Fit(absl::Span<const LookUpSample> samples);
  // From a data sheet: rows come from the L2 cache at twice the memory's bandwidth; sectors of 32
  // bytes; look-ups reach 0.8 of either. The intervals are wide.
  static LookUpModel APriori(const Hardware& hardware);

  // Of one table. InvalidArgument: a size that is negative or not finite; Unimplemented: the pass
  // was not measured.
  absl::StatusOr<Estimate> Predict(const LookUp& look_up, LookUpPass pass) const;
  // Of several in one go: their sum; each has the caches in proportion to the bytes looked up.
  absl::StatusOr<Estimate> Predict(absl::Span<const LookUp> tables, LookUpPass pass) const;

 private:
  struct Law {
    std::vector<double> caches;              // bytes
    std::vector<double> pages;               // numbers of them
    std::vector<double> coefficients;        // empty: not measured
    double low = 1, high = 1;                // of measured / predicted, 80 % of the samples between
    double least_bytes = 0, most_bytes = 0;  // of the samples' look-ups
    int samples = 0;
  };
  static Law FitLaw(const std::vector<LookUpSample>& samples);

  Law laws_[2];
  std::string source_;
};

}  // namespace ebb::perfmodel
