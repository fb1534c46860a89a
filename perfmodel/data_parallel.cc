#include "perfmodel/data_parallel.h"

#include <algorithm>

namespace ebb::perfmodel {
namespace {

// Where a parameter's gradient is final on a stage: at the stage's last backward op, where the op
// is another stage's.
int ReadyOn(const TrainingStep& step, const StagePart& part, const StepParam& param) {
  if (part.Has(step.ops[static_cast<size_t>(param.ready)].unit)) return param.ready;
  int last = param.ready;
  for (size_t i = 0; i < step.ops.size(); ++i) {
    const StepOp& op = step.ops[i];
    if (op.phase == graph::Phase::kBackward && part.Has(op.unit)) last = static_cast<int>(i);
  }
  return last;
}

std::vector<Bucket> Filled(const TrainingStep& step, const StagePart& part,
                           const std::vector<std::pair<int, int>>& order, double bucket_bytes) {
  std::vector<Bucket> buckets;
  for (const auto& [at, index] : order) {
    const StepParam& param = step.params[static_cast<size_t>(index)];
    const int unit = part.Has(param.unit) ? param.unit : param.last_unit;
    if (buckets.empty() || buckets.back().bytes >= bucket_bytes) {
      buckets.push_back({.first_unit = unit, .last_unit = unit});
    }
    Bucket& bucket = buckets.back();
    bucket.params.push_back(index);
    bucket.bytes += param.bytes;
    bucket.ready = std::max(bucket.ready, at);
    bucket.first_unit = std::min(bucket.first_unit, unit);
    bucket.last_unit =
        std::max(bucket.last_unit, part.Has(param.last_unit) ? param.last_unit : unit);
  }
  return buckets;
}

}  // namespace

std::vector<Bucket> GradientBuckets(const TrainingStep& step, const StagePart& part,
                                    double bucket_bytes) {
  std::vector<std::pair<int, int>> order;  // ready, parameter
  for (size_t i = 0; i < step.params.size(); ++i) {
    const StepParam& param = step.params[i];
    if (param.ready < 0 || !part.Has(param)) continue;
    order.emplace_back(ReadyOn(step, part, param), static_cast<int>(i));
  }
  std::sort(order.begin(), order.end());
  return Filled(step, part, order, bucket_bytes);
}

std::vector<Bucket> ParameterBuckets(const TrainingStep& step, const StagePart& part,
                                     double bucket_bytes) {
  std::vector<std::pair<int, int>> order;  // unit, parameter
  for (size_t i = 0; i < step.params.size(); ++i) {
    const StepParam& param = step.params[i];
    if (!part.Has(param)) continue;
    order.emplace_back(part.Has(param.unit) ? param.unit : param.last_unit, static_cast<int>(i));
  }
  std::sort(order.begin(), order.end());
  return Filled(step, part, order, bucket_bytes);
}

}  // namespace ebb::perfmodel
