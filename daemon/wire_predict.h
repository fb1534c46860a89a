// Requests for predictions, checked, and their answers as wire messages. As daemon/wire.h, for the
// performance model. Free functions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ebb/v1/predict.pb.h"
#include "perfmodel/fabric.h"
#include "perfmodel/hardware.h"
#include "perfmodel/predictor.h"
#include "perfmodel/report.h"
#include "perfmodel/shard.h"

namespace ebb::daemon {

// One kind of GPU, with what answers for its kernels.
struct PredictedHardware {
  std::string asked;  // the name in the request
  perfmodel::Hardware hardware;
  std::shared_ptr<const perfmodel::OpPredictor> ops;
  std::string kernels;  // where their times are from, in words
  double price = 0;     // of an hour; 0: not known
};

struct PredictAsked {
  std::vector<int64_t> gpus;  // ascending
  std::vector<PredictedHardware> hardware;
  std::optional<perfmodel::Fabric> fabric;
  std::vector<perfmodel::Strategy> strategies;  // empty: data parallel
  bool all_strategies = false;
};

// All but the job and its batch. InvalidArgument names the field; NotFound: a name that nothing
// has.
absl::StatusOr<PredictAsked> AskedFromWire(const v1::PredictRequest& request);

// What is to be compared on so many GPUs, the batch being of all of them.
absl::StatusOr<std::vector<perfmodel::Strategy>> CandidatesOf(const PredictAsked& asked,
                                                              int64_t gpus, int64_t batch);

v1::StrategyReport ToWire(const perfmodel::StrategyReport& report);
v1::StrategyComparison ToWire(const perfmodel::Comparison& comparison);

struct ShardAsked {
  perfmodel::ShardTask task;
  perfmodel::Hardware hardware;
  std::optional<perfmodel::Fabric> fabric;
};
absl::StatusOr<ShardAsked> AskedFromWire(const v1::ShardEmbeddingsRequest& request);
v1::ShardEmbeddingsResponse ToWire(const ShardAsked& asked, const perfmodel::ShardPlan& plan);

// A known fabric's name, or the text of a file; nothing where both are empty.
absl::StatusOr<std::optional<perfmodel::Fabric>> FabricFromWire(absl::string_view name,
                                                                absl::string_view text);

}  // namespace ebb::daemon
