// A collective's time over its size, as measured: what was measured answers first, a line through
// its ends beyond them. Immutable; may be shared between threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "perfmodel/collective.h"
#include "perfmodel/estimate.h"

namespace ebb::perfmodel {

struct CurvePoint {
  double bytes = 0;  // of Collective
  double micros = 0;
  bool operator==(const CurvePoint&) const = default;
};

// t = alpha + bytes x beta, neither below 0.
struct AlphaBeta {
  double alpha_us = 0;
  double us_per_byte = 0;
  double At(double bytes) const { return alpha_us + bytes * us_per_byte; }
};
// The least squares of relative errors; of no points: zeros.
AlphaBeta FitAlphaBeta(absl::Span<const CurvePoint> points);

class Curve {
 public:
  // What was measured, and where from ("nccl.log:31 to 60") for messages. `nodes`: the machines
  // that the ranks were on, alike many on each.
  struct Subject {
    CollectiveKind kind = CollectiveKind::kAllReduce;
    int64_t ranks = 2;
    int64_t nodes = 1;
    std::string source = {};
    bool operator==(const Subject&) const = default;
  };
  static constexpr int64_t kMaxRanks = 1 << 20;
  static constexpr size_t kMaxPoints = 1 << 16;

  // Several times of one size become their median. InvalidArgument, beginning with the source: a
  // size below 1 byte or a time below 1 ns (or either above 1e15), fewer than two sizes, ranks
  // that the nodes do not divide.
  static absl::StatusOr<Curve> Make(Subject subject, std::vector<CurvePoint> points);

  const Subject& subject() const { return subject_; }
  CollectiveKind kind() const { return subject_.kind; }
  int64_t ranks() const { return subject_.ranks; }
  int64_t nodes() const { return subject_.nodes; }
  // By size, each once.
  const std::vector<CurvePoint>& points() const { return points_; }
  // The same sizes and times, of whatever subject: one measurement under two names.
  bool SameMeasurement(const Curve& other) const { return points_ == other.points_; }

  // Between the sizes that were measured: log-log interpolation of the nearest times that do not
  // fall as sizes grow. Beyond: in step with a line (alpha-beta) through the nearest end, and not
  // in_hull. The interval is that of the nearest five times, each guessed from its neighbours
  // (which are twice as far as it will be from what is asked: a little too wide); it widens beyond.
  // 0 for no bytes (NCCL sends nothing then).
  Estimate At(double bytes) const;

 private:
  Curve() = default;
  double Median(double bytes) const;
  double SpreadAt(double bytes) const;  // a factor, 1 or above

  Subject subject_;
  std::vector<CurvePoint> points_;
  std::vector<double> log_bytes_, log_micros_;  // as At() uses them: never falling
  std::vector<double> residuals_;               // |ln| of each point over what its neighbours say
  AlphaBeta small_, large_;                     // lines through the ends
};

}  // namespace ebb::perfmodel
