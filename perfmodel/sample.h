// What kernels took where they ran: the samples that models of times are fitted to, as a daemon
// records them or as tables of others' measurements hold them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "perfmodel/work.h"

namespace ebb::perfmodel {

// One kernel's run. Times in microseconds.
struct OpSample {
  Work work;
  double micros = 0;     // on the device
  double launch_us = 0;  // of the host, to launch it
  int64_t stream = 0;
  std::string device;  // "NVIDIA H200", "cpu"
  int64_t step = 0;
  std::vector<std::string> co_resident;  // other jobs that had work on the device at that time
  bool throttled = false;                // the device said that its clocks were held down
  bool warm_up = false;                  // among the first runs of its step's program
  int64_t repeats = 1;                   // how many runs `micros` is the middle or best of
  bool operator==(const OpSample&) const = default;
};

// A bounded list, the oldest thrown away first. Not for several threads at once.
class SampleStore {
 public:
  explicit SampleStore(size_t most = 1 << 20) : most_(most) {}
  // InvalidArgument: a time that is not finite and above 0, work with negative numbers.
  absl::Status Append(OpSample sample);
  absl::Span<const OpSample> samples() const { return samples_; }
  int64_t thrown_away() const { return thrown_away_; }

 private:
  size_t most_;
  int64_t thrown_away_ = 0;
  std::vector<OpSample> samples_;
};

// One JSON object a line. Read: InvalidArgument begins with "SOURCE:LINE: "; empty lines are passed
// over; members that are not known are an error, so that nothing is misread in silence.
std::string WriteSamples(absl::Span<const OpSample> samples);
absl::StatusOr<std::vector<OpSample>> ReadSamples(absl::string_view text, absl::string_view source);

// A device's kernels alone on it: the median of the runs of equal work that were neither throttled
// nor beside other jobs nor warm-up, where at least `least` runs (counting repeats) are left.
// Sorted by work, whatever the order of `samples`.
struct MeasuredWork {
  Work work;
  double micros = 0;
  int64_t runs = 0;
};
std::vector<MeasuredWork> SoloMedians(absl::Span<const OpSample> samples, absl::string_view device,
                                      int64_t least = 5);

// By family, type, sizes, FLOPs, bytes.
bool operator<(const MeasuredWork& a, const MeasuredWork& b);

}  // namespace ebb::perfmodel
