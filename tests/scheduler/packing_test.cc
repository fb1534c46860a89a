#include "scheduler/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/memory/step_profiles.h"

namespace ebb::scheduler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<PackingJob> Jobs(std::vector<int64_t> peaks) {
  std::vector<PackingJob> jobs;
  for (size_t i = 0; i < peaks.size(); ++i) {
    jobs.push_back({JobId(static_cast<int64_t>(i)), Bytes(peaks[i])});
  }
  return jobs;
}

TEST(Packing, OfNoJobsIsNoLane) { EXPECT_TRUE(PackLanes({}, Bytes(100), Bytes(1), 4)->empty()); }

TEST(Packing, BigJobsShareALane) {
  const auto lanes = PackLanes(Jobs({90, 80}), Bytes(100), Bytes(10), 4);
  ASSERT_TRUE(lanes.ok());
  ASSERT_EQ(lanes->size(), 1u);
  EXPECT_EQ((*lanes)[0].size, Bytes(100));  // the ten bytes left let the follower rise earlier
  EXPECT_THAT((*lanes)[0].jobs, ElementsAre(JobId(0), JobId(1)));
}

TEST(Packing, SmallJobsGetLanesOfTheirOwn) {
  const auto lanes = PackLanes(Jobs({10, 12, 8}), Bytes(100), Bytes(4), 4);
  ASSERT_TRUE(lanes.ok());
  ASSERT_EQ(lanes->size(), 3u);
  EXPECT_EQ((*lanes)[0].size, Bytes(12));
  EXPECT_EQ((*lanes)[1].size, Bytes(12));
  EXPECT_EQ((*lanes)[2].size, Bytes(8));
}

TEST(Packing, TwoBigAndOneSmallMakeTwoLanes) {
  const auto lanes = PackLanes(Jobs({10, 80, 70}), Bytes(100), Bytes(1), 4);
  ASSERT_TRUE(lanes.ok());
  ASSERT_EQ(lanes->size(), 2u);
  EXPECT_THAT((*lanes)[0].jobs, ElementsAre(JobId(1), JobId(2)));
  EXPECT_EQ((*lanes)[0].size, Bytes(90));
  EXPECT_THAT((*lanes)[1].jobs, ElementsAre(JobId(0)));
}

TEST(Packing, ManySmallJobsArePairedEvenlyWhenLanesAreFew) {
  const auto lanes = PackLanes(Jobs(std::vector<int64_t>(32, 5)), Bytes(1000), Bytes(1), 4);
  ASSERT_TRUE(lanes.ok());
  ASSERT_EQ(lanes->size(), 4u);
  for (const PackedLane& lane : *lanes) {
    EXPECT_EQ(lane.jobs.size(), 8u);
    EXPECT_EQ(lane.size, Bytes(10));  // two in flight
  }
}

TEST(Packing, SaysWhichJobDoesNotFitAndByHowMuch) {
  const absl::Status status = PackLanes(Jobs({10, 2048}), Bytes(1024), Bytes(1), 4).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("job 1 needs 2.0 KiB (2048 bytes)"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("1.0 KiB (1024 bytes)"));
}

TEST(Packing, AlwaysFitsEveryJobIntoWhatIsThere) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    memory::Dice dice(seed);
    std::vector<int64_t> peaks;
    for (int64_t n = dice(1, 20); n > 0; --n) peaks.push_back(dice(0, 1000));
    const Bytes available(dice(1000, 8000));
    const Bytes granule(dice(1, 64));
    const int max_lanes = static_cast<int>(dice(1, 6));
    const auto lanes = PackLanes(Jobs(peaks), available, granule, max_lanes);
    const int64_t largest = *std::max_element(peaks.begin(), peaks.end());
    if (AlignUp(Bytes(largest), granule) > available) {
      EXPECT_FALSE(lanes.ok());
      continue;
    }
    ASSERT_TRUE(lanes.ok()) << lanes.status();
    EXPECT_LE(lanes->size(), static_cast<size_t>(max_lanes));
    Bytes sum;
    std::map<JobId, int> seen;
    for (const PackedLane& lane : *lanes) {
      EXPECT_FALSE(lane.jobs.empty());
      EXPECT_EQ(lane.size.count() % granule.count(), 0);
      sum += lane.size;
      for (JobId job : lane.jobs) {
        EXPECT_LE(Bytes(peaks[job.index()]), lane.size);
        ++seen[job];
      }
    }
    EXPECT_LE(sum, available);
    EXPECT_EQ(seen.size(), peaks.size());
    for (const auto& [job, times] : seen) EXPECT_EQ(times, 1);
  }
}

}  // namespace
}  // namespace ebb::scheduler
