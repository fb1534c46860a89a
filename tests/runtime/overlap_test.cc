#include "runtime/overlap.h"

#include <gtest/gtest.h>

namespace ebb::runtime {
namespace {

TEST(OverlapTracker, CountsTimeInWhichTwoStreamsExecute) {
  OverlapTracker tracker(2);
  tracker.Launched(0);
  tracker.Launched(1);
  tracker.Completed(0, Micros(100), Micros(200));
  tracker.Completed(1, Micros(150), Micros(250));
  EXPECT_EQ(tracker.wall(), Micros(150));
  EXPECT_EQ(tracker.busy(), Micros(150));
  EXPECT_EQ(tracker.concurrent(), Micros(50));
}

TEST(OverlapTracker, ReportsThatComeLateStillCount) {
  OverlapTracker tracker(2);
  tracker.Launched(0);
  tracker.Launched(0);
  tracker.Launched(1);
  tracker.Completed(0, Micros(0), Micros(10));
  tracker.Completed(0, Micros(10), Micros(40));
  EXPECT_EQ(tracker.concurrent(), Micros(0));  // stream 1 may still report any of it
  tracker.Completed(1, Micros(5), Micros(30));
  EXPECT_EQ(tracker.concurrent(), Micros(25));
  EXPECT_EQ(tracker.busy(), Micros(40));
}

TEST(OverlapTracker, IdleTimeIsNotBusy) {
  OverlapTracker tracker(2);
  tracker.Launched(0);
  tracker.Completed(0, Micros(0), Micros(10));
  tracker.Launched(1);
  tracker.Completed(1, Micros(50), Micros(60));
  EXPECT_EQ(tracker.wall(), Micros(60));
  EXPECT_EQ(tracker.busy(), Micros(20));
  EXPECT_EQ(tracker.concurrent(), Micros(0));
}

}  // namespace
}  // namespace ebb::runtime
