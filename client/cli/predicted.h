// Predictions as they come on the wire, for people. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "ebb/v1/predict.pb.h"
#include "perfmodel/report.h"

namespace ebb::cli {

// What the tables and plots of perfmodel/report_text.h need of a report.
perfmodel::StrategyReport FromWire(const v1::StrategyReport& wire);
// The best of each number of GPUs, of one kind of hardware.
std::vector<perfmodel::StrategyReport> BestReports(const v1::PredictResponse& response,
                                                   const std::string& hardware);
// Names of hardware, each once, in the order of the answer.
std::vector<std::string> HardwareOf(const v1::PredictResponse& response);

std::string PredictText(const v1::PredictResponse& response);
// Of the tables asked about: by rank what it holds, its time and bytes; what bounds the step.
std::string ShardText(const v1::ShardEmbeddingsResponse& response);

}  // namespace ebb::cli
