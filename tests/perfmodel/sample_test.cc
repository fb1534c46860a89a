#include "perfmodel/sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "perfmodel/import_samples.h"

namespace ebb::perfmodel {
namespace {

using ::testing::HasSubstr;

OpSample Sample(int64_t m, double micros) {
  OpSample sample{.micros = micros, .device = "gpu"};
  sample.work = {.family = Family::kGemm, .m = m, .n = 8, .k = 4, .flops = 64.0 * m, .bytes = 9.5};
  return sample;
}

TEST(SampleTest, LinesAreReadAsTheyWereWritten) {
  OpSample full = Sample(3, 0.1);
  full.launch_us = 4.7, full.stream = 2, full.step = 50, full.repeats = 25;
  full.co_resident = {"a \"b\""}, full.throttled = true, full.warm_up = true;
  const std::vector<OpSample> samples = {full, Sample(4, 1.0 / 3)};
  const auto read = ReadSamples(WriteSamples(samples), "s");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, samples);
}

TEST(SampleTest, DamagedLinesAreNamed) {
  const std::string good = WriteSamples({{Sample(3, 1)}});
  const auto fails = [&](const std::string& line, const std::string& words) {
    const auto read = ReadSamples(good + "\n" + line, "s.jsonl");
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr("s.jsonl:3: ")) << line;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(words)) << line;
  };
  fails(good.substr(0, good.size() / 2), "cut off");
  fails("[1]", "JSON object");
  fails("{}", "no family");
  fails(std::string(70000, '['), "64 KiB");
  fails(std::string(60000, '['), "cut off");
  fails(R"({"family":"gemm","dtype":"f32","micros":-1,"device":"d"})", "no times");
  fails(R"({"family":"gemm","dtype":"f32","micros":1e999,"device":"d"})", "");
  fails(R"({"family":"magic","dtype":"f32","micros":1,"device":"d"})", "magic");
  fails(R"({"family":"gemm","dtype":"f31","micros":1,"device":"d"})", "dtype");
  fails(R"({"family":"gemm","dtype":"f32","micros":1,"device":"d","m":-4})", "below 0");
  fails(R"({"family":"gemm","dtype":"f32","micros":1,"device":"d","colour":4})", "colour");
}

TEST(SampleTest, MediansLeaveOutWhatWasNotAloneAndColdAndSeldom) {
  std::vector<OpSample> samples;
  for (const double micros : {5.0, 1.0, 2.0, 3.0, 4.0}) samples.push_back(Sample(8, micros));
  for (int i = 0; i < 9; ++i) {
    OpSample odd = Sample(8, 100);
    odd.throttled = i % 3 == 0, odd.warm_up = i % 3 == 1;
    if (i % 3 == 2) odd.co_resident = {"other"};
    samples.push_back(odd);
  }
  for (int i = 0; i < 4; ++i) samples.push_back(Sample(16, 7));
  auto medians = SoloMedians(samples, "gpu");
  ASSERT_EQ(medians.size(), 1u);
  EXPECT_EQ(medians[0].micros, 3);
  EXPECT_EQ(medians[0].runs, 5);
  EXPECT_TRUE(SoloMedians(samples, "another").empty());
  std::reverse(samples.begin(), samples.end());
  EXPECT_EQ(SoloMedians(samples, "gpu", 4).size(), 2u);
}

TEST(SampleTest, AFullStoreThrowsTheOldestAway) {
  SampleStore store(16);
  for (int64_t i = 1; i <= 40; ++i) ASSERT_TRUE(store.Append(Sample(i, 1)).ok());
  EXPECT_LE(store.samples().size(), 16u);
  EXPECT_EQ(store.samples().back().work.m, 40);
  EXPECT_EQ(store.thrown_away() + static_cast<int64_t>(store.samples().size()), 40);
  EXPECT_FALSE(store.Append(Sample(1, 0)).ok());
}

TEST(SampleTest, NeuSightsProductsHaveTheInnerDimensionN) {
  const auto samples =
      NeuSightSamples("OPName,Latency,Device,B,M,N,K\nlinear,0.5,Tesla T4,2,3,5,7\n", "t.csv");
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(ToString((*samples)[0].work), "gemm f32 6x7x5");
  EXPECT_EQ((*samples)[0].micros, 500);
  const auto odd = NeuSightSamples("OPName,Latency,Device,B,H\nmagic,1,d,2,3\n", "t.csv");
  EXPECT_THAT(std::string(odd.status().message()), HasSubstr("t.csv:2: "));
}

}  // namespace
}  // namespace ebb::perfmodel
