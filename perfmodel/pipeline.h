// Pipelines: where a model is cut, and in which order a stage works through micro-batches. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ebb::perfmodel {

enum class Schedule : uint8_t {
  kGPipe,                  // all forward, then all backward (Huang et al., 2019)
  kOneForwardOneBackward,  // as early backward as can be (PipeDream-Flush, Narayanan et al., 2021)
  kInterleaved,            // the same, every rank with several stages (Megatron, 2021)
};
absl::string_view Name(Schedule schedule);  // "gpipe", "1f1b", "interleaved"

// What a pipeline rank does next.
struct PipelineSlot {
  bool backward = false;
  int64_t micro = 0;
  int64_t chunk = 0;  // of the rank's stages; stage = chunk x ranks + rank
  bool operator==(const PipelineSlot&) const = default;
};

// In order. `chunks` above 1 for kInterleaved alone, and then `ranks` divides `micro_batches`.
std::vector<PipelineSlot> PipelineOrder(Schedule schedule, int64_t rank, int64_t ranks,
                                        int64_t micro_batches, int64_t chunks);

// The most micro-batches whose forward of one chunk is done and backward is not, summed over the
// rank's chunks.
int64_t MostInFlight(absl::Span<const PipelineSlot> order);

// First unit of each of `groups` (<= the number of units) contiguous, non-empty groups. The longest
// is at most 1 % longer than it must be; of such cuts those with the fewest `crossing` bytes
// (crossing[i]: of a cut before unit i).
std::vector<int> BalancedCuts(absl::Span<const double> micros, absl::Span<const double> crossing,
                              int groups);

// First unit of each of ranks x chunks stages, rank r having stages r, ranks + r, ...: so that the
// rank with most to do has little, by repeated shrinking of what such ranks have. `chunks` of 1:
// BalancedCuts.
std::vector<int> InterleavedCuts(absl::Span<const double> micros, absl::Span<const double> crossing,
                                 int ranks, int chunks);

}  // namespace ebb::perfmodel
