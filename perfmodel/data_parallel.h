// Data parallelism: gradients are exchanged in buckets as they become final, while backward goes on
// (Li et al., "PyTorch Distributed", 2020); with ZeRO ranks have shares of states, gradients and
// parameters. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "perfmodel/training_step.h"

namespace ebb::perfmodel {

struct DataParallel {
  int64_t ranks = 1;
  int zero = 0;
  double bucket_bytes = 25 << 20;
};

// A pipeline stage: units `first` to `last`, inclusive.
struct StagePart {
  int first = 0, last = 0;
  bool Has(int unit) const { return first <= unit && unit <= last; }
  // Parameters that layers of several stages share are on each of them.
  bool Has(const StepParam& param) const { return Has(param.unit) || Has(param.last_unit); }
};

struct Bucket {
  std::vector<int> params;  // indices in the step
  double bytes = 0;
  // Gradients: the op with which the last of them is final. Parameters: the first unit that reads
  // one of them.
  int ready = 0;
  int first_unit = 0, last_unit = 0;
};

// Of a stage's trained parameters, in the order in which their gradients are final: a bucket is
// full when it has `bucket_bytes` or more.
std::vector<Bucket> GradientBuckets(const TrainingStep& step, const StagePart& part,
                                    double bucket_bytes);
// Of all of a stage's parameters, in the order in which forward reads them: what ZeRO 3 gathers at
// once.
std::vector<Bucket> ParameterBuckets(const TrainingStep& step, const StagePart& part,
                                     double bucket_bytes);

}  // namespace ebb::perfmodel
