#include "perfmodel/memory_fit.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace ebb::perfmodel {

MemoryFit FitOf(const TrainingStep& step, absl::Span<const StagePart> parts,
                absl::Span<const PipelineSlot> order, const DataParallel& data,
                int64_t micro_batches) {
  const auto ranks = static_cast<double>(data.ranks);
  MemoryFit fit;
  double trained = 0, largest = 0;
  for (const StagePart& part : parts) {
    for (const StepParam& param : step.params) {
      if (!part.Has(param)) continue;
      fit.params += param.bytes;
      fit.optimizer += param.state_bytes;
      if (param.ready >= 0) trained += param.bytes;
    }
    for (int unit = part.first; unit <= part.last; ++unit) {
      fit.activations += step.saved_bytes[static_cast<size_t>(unit)];
    }
    for (const Bucket& bucket : ParameterBuckets(step, part, data.bucket_bytes)) {
      largest = std::max(largest, bucket.bytes);
    }
  }
  fit.activations *= static_cast<double>(MostInFlight(order)) / static_cast<double>(parts.size());
  fit.working = step.working_bytes;
  fit.fixed = step.fixed_bytes + step.input_bytes;
  if (data.ranks > 1 || micro_batches > 1) fit.gradients = trained;
  if (data.ranks > 1) {
    // One bucket is filled while another is on its way; a gathered one is in use meanwhile.
    fit.buckets = 2 * std::min(std::max(data.bucket_bytes, largest), trained);
    if (data.zero >= 3) fit.buckets += 2 * largest;
    if (data.zero >= 1) fit.optimizer /= ranks;
    if (data.zero >= 2) fit.gradients /= ranks;
    if (data.zero >= 3) fit.params /= ranks;
  }
  return fit;
}

std::string FitText(const MemoryFit& fit, double memory_bytes) {
  const double gib = std::exp2(30);
  if (fit.total() <= memory_bytes) {
    return absl::StrFormat("fits in %.1f GiB, %.1f GiB to spare", memory_bytes / gib,
                           (memory_bytes - fit.total()) / gib);
  }
  return absl::StrFormat("needs %.1f GiB, %.1f GiB more than there is", fit.total() / gib,
                         (fit.total() - memory_bytes) / gib);
}

}  // namespace ebb::perfmodel
