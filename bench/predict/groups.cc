#include "bench/predict/groups.h"

namespace ebb::bench {

absl::Span<const RowGroup> RowGroups() {
  static constexpr RowGroup kGroups[] = {
      {"collectives", CollectiveRows},
      {"traces", TraceRows},
      {"training", TrainingRows},
  };
  return kGroups;
}

}  // namespace ebb::bench
