#include "runtime/metric_log.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ebb::runtime
