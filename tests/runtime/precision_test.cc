// Jobs in mixed precision: the same bits alone and beside others, at every level of the memory
// ladder that the pool forces, and not those of fp32.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/jobs.h"

namespace ebb::testing {
namespace {

std::vector<runtime::JobSpec> Jobs(graph::Precision precision) {
  std::vector<runtime::JobSpec> specs;
  JobOptions common;
  common.validate = true;
  common.also = [precision](runtime::JobSpec* spec) { spec->precision = precision; };
  for (const JobOptions& options : FourKinds(common, 96, 8)) specs.push_back(MakeJob(options));
  return specs;
}

std::string Solo(const runtime::JobSpec& spec) {
  const auto engine = MakeEngine({.memory = MiB(128)});
  const auto job = engine->Submit(spec);
  EXPECT_TRUE(job.ok()) << job.status();
  if (!job.ok()) return "";
  EXPECT_EQ(WaitUntilFinal(*engine, *job).state, runtime::JobState::kSucceeded);
  return Fingerprint(*engine, *job);
}

TEST(JobsInBf16, TogetherGiveTheBitsOfSoloRuns) {
  const std::vector<runtime::JobSpec> specs = Jobs(graph::Precision::kBf16);
  const std::vector<runtime::JobSpec> full = Jobs(graph::Precision::kFp32);
  std::vector<std::string> solo;
  for (size_t i = 0; i < specs.size(); ++i) {
    solo.push_back(Solo(specs[i]));
    EXPECT_NE(solo.back(), Solo(full[i])) << specs[i].name;
  }
  for (const Bytes memory : {MiB(128), MiB(4)}) {
    SCOPED_TRACE(FormatBytes(memory));
    const auto engine = MakeCheckedEngine({.memory = memory});
    std::vector<JobId> jobs;
    for (const runtime::JobSpec& spec : specs) {
      const auto job = engine->Submit(spec);
      ASSERT_TRUE(job.ok()) << job.status();
      jobs.push_back(*job);
    }
    for (size_t i = 0; i < jobs.size(); ++i) {
      EXPECT_EQ(WaitUntilFinal(*engine, jobs[i]).state, runtime::JobState::kSucceeded);
      EXPECT_EQ(Fingerprint(*engine, jobs[i]), solo[i]) << specs[i].name;
    }
  }
}

TEST(JobsInTf32, HaveTheBitsOfFp32WhereTheDeviceHasNoTf32) {
  const std::vector<runtime::JobSpec> allowed = Jobs(graph::Precision::kTf32);
  const std::vector<runtime::JobSpec> full = Jobs(graph::Precision::kFp32);
  for (size_t i = 0; i < full.size(); ++i) {
    EXPECT_EQ(Solo(allowed[i]), Solo(full[i])) << full[i].name;
  }
}

}  // namespace
}  // namespace ebb::testing
