#include "perfmodel/sample.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "perfmodel/quantile.h"

namespace ebb::perfmodel {
namespace {

auto KeyOf(const Work& work) {
  return std::make_tuple(work.family, work.dtype, work.batch, work.m, work.n, work.k, work.window,
                         work.stride, work.flops, work.bytes);
}

struct ByWork {
  bool operator()(const Work& a, const Work& b) const { return KeyOf(a) < KeyOf(b); }
};

}  // namespace

bool operator<(const MeasuredWork& a, const MeasuredWork& b) {
  return std::make_tuple(KeyOf(a.work), a.micros, a.runs) <
         std::make_tuple(KeyOf(b.work), b.micros, b.runs);
}

absl::Status SampleStore::Append(OpSample sample) {
  const Work& work = sample.work;
  if (!std::isfinite(sample.micros) || sample.micros <= 0 || !std::isfinite(sample.launch_us) ||
      sample.launch_us < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a sample of ", ToString(work), " took ",
                                                   sample.micros, " us, its launch ",
                                                   sample.launch_us, " us: no times"));
  }
  if (std::min({work.batch, work.m, work.n, work.k, work.window, work.stride, sample.repeats}) <
          0 ||
      !std::isfinite(work.flops) || !std::isfinite(work.bytes) || work.flops < 0 ||
      work.bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a sample of ", ToString(work), " has numbers below 0"));
  }
  if (samples_.size() >= most_) {  // by an eighth, so that it is seldom
    const auto count = static_cast<std::ptrdiff_t>(most_ / 8 + 1);
    samples_.erase(samples_.begin(), samples_.begin() + count);
    thrown_away_ += count;
  }
  samples_.push_back(std::move(sample));
  return absl::OkStatus();
}

std::vector<MeasuredWork> SoloMedians(absl::Span<const OpSample> samples, absl::string_view device,
                                      int64_t least) {
  struct Runs {
    std::vector<double> micros;
    int64_t count = 0;
  };
  std::map<Work, Runs, ByWork> groups;
  for (const OpSample& sample : samples) {
    if (sample.device != device || sample.throttled || sample.warm_up ||
        !sample.co_resident.empty() || sample.micros <= 0) {
      continue;
    }
    Runs& runs = groups[sample.work];
    runs.micros.push_back(sample.micros);
    runs.count += sample.repeats;
  }
  std::vector<MeasuredWork> medians;
  for (auto& [work, runs] : groups) {
    if (runs.count < least) continue;
    medians.push_back({work, MedianOf(std::move(runs.micros)), runs.count});
  }
  return medians;
}

}  // namespace ebb::perfmodel
