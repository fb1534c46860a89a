// Requests for predictions, checked, and their answers as wire messages. As daemon/wire.h, for the
// performance model. Free functions.
#pragma once

#include <cstdint>
#include <memory>
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
  std::string kernels;                              // where their times are from, in words
  std::shared_ptr<const perfmodel::Fabric> fabric;  // null: for one GPU alone
  double price = 0;                                 // of an hour; 0: not known
};

struct PredictAsked {
  std::vector<int64_t> gpus;  // ascending
  std::vector<PredictedHardware> hardware;
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
  std::shared_ptr<const perfmodel::Fabric> fabric;  // null: for one rank
};
absl::StatusOr<ShardAsked> AskedFromWire(const v1::ShardEmbeddingsRequest& request);
v1::ShardEmbeddingsResponse ToWire(const ShardAsked& asked, const perfmodel::ShardPlan& plan);

absl::StatusOr<v1::CalibrateResponse> Calibrated(const v1::CalibrateRequest& request);

// `field` is what messages call it. InvalidArgument: neither a name nor a file.
absl::StatusOr<std::shared_ptr<const perfmodel::Fabric>> FabricFromWire(const v1::Fabric& wire,
                                                                        absl::string_view field);
// What is said where there is none and several GPUs are to be joined.
absl::Status NoFabric(absl::string_view field);

}  // namespace ebb::daemon
