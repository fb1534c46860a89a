#include "runtime/metric_log.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/metric_sums.h"

namespace ebb::runtime {
namespace {

TEST(MetricLog, GivesWhatWasAddedFromAnyPoint) {
  MetricLog log;
  for (size_t size = 0; size <= 200; ++size) {
    ASSERT_EQ(log.size(), size);
    for (size_t from = 0; from <= size + 2; ++from) {
      const std::vector<MetricPoint> points = log.From(from);
      ASSERT_EQ(points.size(), from < size ? size - from : 0) << from << " of " << size;
      for (size_t i = 0; i < points.size(); ++i) {
        ASSERT_EQ(points[i].step, static_cast<int64_t>(from + i));
      }
    }
    log.Add({.name = "train/loss", .step = static_cast<int64_t>(size)});
  }
}

// A perfect score would mislead whoever decides by it.
TEST(MetricSums, OfNothingAreNoNumber) {
  StepProgram step;
  for (const char* name : {"metric/loss.sum", "metric/loss.count"}) {
    step.metrics.push_back(
        step.graph.AddValue(name, {graph::DType::kF64, {}}, graph::Role::kMetric));
  }
  MetricSums sums;
  sums.Add(step, std::vector<char>(16, 0), {Bytes(0), Bytes(8)}, 1);
  EXPECT_TRUE(std::isnan(sums.Take().at("loss")));
}

}  // namespace
}  // namespace ebb::runtime
