// The comparison of the roofline with measured kernels: on a table of a few rows, and the constants
// of the V100's profile on the measurements that they were chosen by.
#include "bench/roofline.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/device/sim_profiles.h"

namespace ebb::bench {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kProducts[] =
    "Latency,Kernels,B,M,N,K\n"
    "0.010,tiny,1,1,1,1\n"
    "1.000,\"a, \"\"b\"\"\",1,256,4000,128\n"
    "2.000,c,1,128,100,64\n"
    "0.019,d,1,512,5000,512\n";
constexpr char kConvs[] =
    "Latency,Kernels,B,Input_Channel,Output_Channel,Kernel_Szie,Input_Size,Stride,Padding\n"
    "0.010,tiny,1,1,1,1,1,1,0\n"
    "1.000,gemm,1,1000,64,3,8,1,1\n"
    "1.000,void cudnn::Winograd(),1,1000,64,3,8,1,1\r\n"
    "\n"
    "1.000,fft2d_r2c,2,64,100,3,16,1,1\n";

absl::StatusOr<std::vector<MeasuredKernel>> Parse(MeasuredOp op, const std::string& text,
                                                  const std::string& from = "",
                                                  const std::string& to = "") {
  if (from.empty()) return ParseKernels(op, text, "t.csv");
  EXPECT_THAT(text, HasSubstr(from));
  return ParseKernels(op, absl::StrReplaceAll(text, {{from, to}}), "t.csv");
}

std::string ErrorOf(MeasuredOp op, const std::string& text, const std::string& from,
                    const std::string& to) {
  const auto kernels = Parse(op, text, from, to);
  EXPECT_EQ(kernels.status().code(), absl::StatusCode::kInvalidArgument) << from << " " << to;
  return std::string(kernels.status().message());
}

std::string TableFolder() {
  const fs::path folder = fs::path(::testing::TempDir()) / "ebb_roofline_tables";
  fs::remove_all(folder);
  for (const auto& [op, text] :
       {std::pair("linear", kProducts), std::pair("bmm", kProducts), std::pair("conv", kConvs)}) {
    fs::create_directories(folder / op);
    std::ofstream(folder / op / "g.csv") << text;
  }
  return folder.string();
}

TEST(KernelData, ARowIsAGraphOfOneNode) {
  const auto products = Parse(MeasuredOp::kLinear, kProducts);
  ASSERT_TRUE(products.ok()) << products.status();
  ASSERT_EQ(products->size(), 4);
  EXPECT_DOUBLE_EQ((*products)[1].micros, 1000);
  EXPECT_THAT(graph::ToText((*products)[1].graph),
              AllOf(HasSubstr("f32[256,4000]"), HasSubstr("f32[128,4000]"), HasSubstr("Gemm")));
  const auto convs = Parse(MeasuredOp::kConv, kConvs);
  ASSERT_TRUE(convs.ok()) << convs.status();
  ASSERT_EQ(convs->size(), 4);
  EXPECT_FALSE((*convs)[1].transformed);
  EXPECT_TRUE((*convs)[2].transformed && (*convs)[3].transformed);
  EXPECT_THAT(graph::ToText((*convs)[3].graph),
              AllOf(HasSubstr("f32[2,64,16,16]"), HasSubstr("f32[100,64,3,3]"),
                    HasSubstr("f32[2,100,16,16]")));
}

TEST(KernelData, MistakesAreNamedWithTheirLine) {
  EXPECT_THAT(ErrorOf(MeasuredOp::kLinear, kProducts, "2.000", "fast"),
              AllOf(HasSubstr("t.csv:4: column Latency"), HasSubstr("'fast'")));
  EXPECT_THAT(ErrorOf(MeasuredOp::kBmm, kProducts, "128,100", "0,100"),
              HasSubstr("t.csv:4: column M: '0' is no whole number from 1"));
  EXPECT_THAT(ErrorOf(MeasuredOp::kLinear, kProducts, "2.000,c", "2.000"),
              HasSubstr("t.csv:4: 5 cells, but the header has 6"));
  EXPECT_THAT(ErrorOf(MeasuredOp::kLinear, kProducts, "\"\"b\"\"\"", "b"),
              HasSubstr("t.csv:3: a quoted cell does not end"));
  EXPECT_THAT(ErrorOf(MeasuredOp::kLinear, kProducts, "N,K", "N,L"),
              HasSubstr("t.csv:2: the header (line 1) has no column K"));
  EXPECT_THAT(ErrorOf(MeasuredOp::kLinear, kProducts, "512,5000,512", "999999,999999,999999"),
              HasSubstr("t.csv:5: its dimensions are too large"));
  EXPECT_THAT(ErrorOf(MeasuredOp::kConv, kConvs, "3,16,1,1", "99,16,1,1"), HasSubstr("t.csv:6: "));
  for (const char* text : {"", "\n", "Latency,B,M,N,K\n"}) {
    const auto none = ParseKernels(MeasuredOp::kLinear, text, "t.csv");
    EXPECT_THAT(std::string(none.status().message()), HasSubstr("no rows")) << none.status();
  }
}

TEST(Roofline, TimesAreTheFixedPartAndTheProfiles) {
  // 1e6 flops a microsecond on 20 slots; bandwidth does not bind.
  device::SimProfile profile = ebb::testing::PlainProfile();
  profile.bandwidth_gbs = 1e6;
  profile.kernel_overhead_us = 7;  // in the fixed part of a latency already
  profile.split_depth = 1000;
  const auto report = CompareRoofline({TableFolder(), "g", profile});
  ASSERT_TRUE(report.ok()) << report.status();
  const RooflineTable& linear = report->tables[0];
  EXPECT_EQ(linear.rows, 4);
  EXPECT_DOUBLE_EQ(linear.fixed_us, 10);
  EXPECT_EQ(linear.compared, 2);  // 10 and 19 us are too close to it
  // Both have fewer than 20 tiles. The deep one: 4 tiles in 4 parts, of 20 slots.
  const double deep = (10 + 2.0 * 256 * 4000 * 128 / 1e6 / (16.0 / 20)) / 1000;
  const double flat = (10 + 2.0 * 128 * 100 * 64 / 1e6 / (1.0 / 20)) / 2000;
  const RooflineFit& fit = report->by_grid[0][0];
  EXPECT_EQ(fit.rows, 2);
  EXPECT_NEAR(fit.ratio, deep, 1e-9);  // of two, the larger is the median
  EXPECT_NEAR(fit.off, 1 / flat, 1e-9);
  // Only the deep one is split by 512: into 5 parts, which fill the wave.
  const RooflineDepth& first = report->by_depth.front();
  const RooflineDepth& last = report->by_depth.back();
  EXPECT_EQ(first.depth, 512);
  EXPECT_EQ(last.depth, 0);
  EXPECT_EQ(first.few_tiles[0].rows, 2);
  EXPECT_EQ(first.reached[0].rows, 1);
  EXPECT_NEAR(first.reached[0].ratio, (10 + 262.144) / 1000, 1e-9);
  EXPECT_NEAR(last.reached[0].ratio, (10 + 262.144 * 5) / 1000, 1e-9);
  // 665 us in 2 parts (1,448), 1,321 us in one (from 2,048 on), of a measured 1,000.
  EXPECT_EQ(NearestDepth(*report, &RooflineDepth::reached, KernelSet::kLinear), 2048);
  // A convolution is in the set of its kind as well, and in no other.
  const auto rows = [&](KernelSet set) { return first.few_tiles[static_cast<size_t>(set)].rows; };
  EXPECT_EQ(rows(KernelSet::kConv), 3);
  EXPECT_EQ(rows(KernelSet::kConvProduct), 1);
  EXPECT_EQ(rows(KernelSet::kConvTransform), 2);
}

TEST(Roofline, WhatIsMissingIsNamed) {
  const auto report = CompareRoofline({TableFolder(), "h", ebb::testing::PlainProfile()});
  EXPECT_EQ(report.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(report.status().message()),
              AllOf(HasSubstr("linear/h.csv"), HasSubstr("--data"), HasSubstr("--gpu")));
}

// The criterion of docs/device_sim.md.
TEST(Roofline, TheSplitDepthsOfTheV100AreTheNearestToMeasurements) {
  const std::string folder = EBB_SOURCE_DIR "/../shared/perfdata/kernels/neusight/train";
  if (!fs::is_directory(folder)) GTEST_SKIP() << folder << " is absent: measured kernels go there";
  const auto profile = device::LoadSimProfile("v100-16gb");
  ASSERT_TRUE(profile.ok()) << profile.status();
  RooflineOptions options{.folder = folder, .profile = *profile};
  const auto report = CompareRoofline(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(NearestDepth(*report, &RooflineDepth::reached, KernelSet::kLinear),
            static_cast<int64_t>(profile->split_depth));
  EXPECT_EQ(NearestDepth(*report, &RooflineDepth::reached, KernelSet::kConv),
            static_cast<int64_t>(profile->conv_split_depth));
  const auto of = [](const RooflineFits& fits, KernelSet set) {
    return fits[static_cast<size_t>(set)];
  };
  // Never to split is plainly wrong; large grids of products are within a quarter.
  EXPECT_GT(of(report->by_depth.back().reached, KernelSet::kLinear).ratio, 2);
  EXPECT_GT(of(report->by_depth.back().reached, KernelSet::kConv).ratio, 1.5);
  EXPECT_NEAR(report->by_grid[0].back().ratio, 1, 0.25);
}

}  // namespace
}  // namespace ebb::bench
