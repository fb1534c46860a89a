// What a job's step takes at batches at which it did not run, from what its nodes took at those at
// which it did. Immutable once fitted.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "perfmodel/estimate.h"
#include "perfmodel/work.h"

namespace ebb::perfmodel {

struct NodeTime {
  std::string name;  // the same at every batch
  Work work;
  double micros = 0;
};

// Of one job alone on its device, at one batch.
struct StepSample {
  int64_t batch = 0;
  double step_us = 0;  // all of it: nodes, and what the host does beside them
  std::vector<NodeTime> nodes;
};

// A node takes `fixed` + `rate` x (FLOPs of a product, else bytes), none of them negative. What the
// step takes beside its nodes is such a law of the batch.
class StepLaw {
 public:
  // InvalidArgument: fewer than two batches, one batch twice, a time or work that is not finite and
  // above 0 (nodes: at least 0), a step without nodes, a name twice, a node that is not in all.
  static absl::StatusOr<StepLaw> Fit(absl::Span<const StepSample> samples);

  // Microseconds; FLOPs and bytes grow with the batch along a line. InvalidArgument: a batch below
  // 1. Beyond the smallest and largest batch it is extrapolated, and its interval is wider.
  absl::StatusOr<Estimate> Step(int64_t batch) const;
  // Of one node with that work; NotFound names a node that was not measured.
  absl::StatusOr<Estimate> Node(const std::string& name, const Work& work) const;
  // What the step takes beside its nodes.
  double Beside(int64_t batch) const;

 private:
  struct Line {
    double fixed = 0, rate = 0;
    double least = 0, most = 0;  // what it was fitted to
    double At(double amount) const { return fixed + rate * amount; }
  };
  struct NodeLaw {
    Line micros;         // of the amount
    double at_zero = 0;  // the amount at a batch of 0, and for each more: may be negative
    double each = 0;
  };
  static Line FitLine(absl::Span<const double> amounts, absl::Span<const double> micros);
  double Median(int64_t batch) const;

  std::map<std::string, NodeLaw> nodes_;
  Line beside_;
  double worst_ = 0;  // of the fitted steps, as part of the measured
  size_t samples_ = 0;
};

}  // namespace ebb::perfmodel
