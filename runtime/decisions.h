// What a job asks to be decided by its evaluations. Plain structs; runtime/judge.h decides.
#pragma once

#include <cstdint>
#include <string>

namespace ebb::runtime {

// A value of an evaluation that decides something.
enum class Better { kLower, kHigher };
struct WatchedMetric {
  std::string name = "val/loss";
  Better better = Better::kLower;
};

// PyTorch's ReduceLROnPlateau (relative threshold); one evaluation is one of its steps.
struct PlateauSpec {
  WatchedMetric metric;
  double factor = 0.1;
  int64_t patience = 10;
  double threshold = 1e-4;
  int64_t cooldown = 0;
  double min_lr = 0;
};

// The job ends after `patience` evaluations in a row none of which was better than the best by more
// than `min_delta`.
struct EarlyStopSpec {
  WatchedMetric metric;
  int64_t patience = 1;
  double min_delta = 0;
};

// What a job's result is: its state at the end, or at its best evaluation, or that with the one at
// the end beside it.
enum class Keep { kLast, kBest, kBestAndLast };

}  // namespace ebb::runtime
