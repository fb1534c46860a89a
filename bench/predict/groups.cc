#include "bench/predict/groups.h"

namespace ebb::bench {

absl::Span<const RowGroup> RowGroups() {
  static constexpr RowGroup kGroups[] = {
      {"kernels", KernelRows},        {"collectives", CollectiveRows},  {"traces", TraceRows},
      {"four_gpus", FourGpuRows},     {"training", TrainingRows},       {"sharding", ShardingRows},
      {"look_ups", LookUpRows, true}, {"cpu_steps", CpuStepRows, true},
  };
  return kGroups;
}

}  // namespace ebb::bench
