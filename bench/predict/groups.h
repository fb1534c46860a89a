// The groups of rows, a file each; see RowGroup.
#pragma once

#include "bench/predict/rows.h"

namespace ebb::bench {

absl::StatusOr<std::vector<PredictRow>> KernelRows(const std::string& data);
absl::StatusOr<std::vector<PredictRow>> CollectiveRows(const std::string& data);
absl::StatusOr<std::vector<PredictRow>> TraceRows(const std::string& data);
absl::StatusOr<std::vector<PredictRow>> FourGpuRows(const std::string& data);
absl::StatusOr<std::vector<PredictRow>> TrainingRows(const std::string& data);
absl::StatusOr<std::vector<PredictRow>> LookUpRows(const std::string& data);
absl::StatusOr<std::vector<PredictRow>> ShardingRows(const std::string& data);
absl::StatusOr<std::vector<PredictRow>> CpuStepRows(const std::string& data);

}  // namespace ebb::bench
