#include "perfmodel/curve_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace ebb::perfmodel {
namespace {

using ::testing::HasSubstr;

// Two ranks on two hosts, in the columns of nccl-tests 2.13 and later.
constexpr char kNew[] = R"(# nccl-tests version 2.17.1 nccl-headers=22703 nccl-library=22703
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 67108864 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid   4711 on     node-a device  0 [0x07] NVIDIA A100-SXM4-40GB
#  Rank  1 Group  0 Pid   4712 on     node-b device  0 [0x07] NVIDIA A100-SXM4-40GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
node-a:4711:4711 [0] NCCL INFO Bootstrap : Using eth0
           8             2     float     sum      -1    36.40    0.00    0.00      0    34.80    0.00    0.00      0
    33554432       8388608     float     sum      -1   1678.0   20.00   20.00      0   1678.0   20.00   20.00      0
    67108864      16777216     float     sum      -1   3355.0   20.00   20.00    N/A   3355.0   20.00   20.00    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 13.3333
#
)";

// No root, `error`, and nothing where a reduction would stand.
constexpr char kOld[] = R"($ ./build/alltoall_perf -b 8 -e 512M -g 4
# nThread 1 nGpus 4 minBytes 8 maxBytes 536870912 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#   Rank  0 Pid   1320 on host device  0 [0x00] Tesla V100-SXM2-16GB
#   Rank  1 Pid   1320 on host device  1 [0x00] Tesla V100-SXM2-16GB
#   Rank  2 Pid   1320 on host device  2 [0x00] Tesla V100-SXM2-16GB
#   Rank  3 Pid   1320 on host device  3 [0x00] Tesla V100-SXM2-16GB
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
   268435456       1048576     float            20000   13.42   10.06  0e+00   21000   12.78    9.59  1e+00
   536870912       2097152     float            40000   13.42   10.06  0e+00      N/A     N/A     N/A    N/A
)";

TEST(NcclTests, AreReadInTheirNewColumns) {
  const auto curves = ReadNcclTests(kNew, "log");
  ASSERT_TRUE(curves.ok()) << curves.status();
  ASSERT_EQ(curves->size(), 1u);
  const Curve& curve = curves->front();
  EXPECT_EQ(curve.subject(), (Curve::Subject{CollectiveKind::kAllReduce, 2, 2, "log:13-15"}));
  ASSERT_EQ(curve.points().size(), 3u);
  EXPECT_EQ(curve.points()[0].bytes, 8);
  EXPECT_NEAR(curve.points()[0].micros, 35.6, 1e-9) << "in place and out of place alike";
  EXPECT_EQ(curve.points()[2], (CurvePoint{67108864, 3355}));
}

TEST(NcclTests, AreReadInTheirOldColumns) {
  const auto curves = ReadNcclTests(kOld, "log");
  ASSERT_TRUE(curves.ok()) << curves.status();
  const Curve& curve = curves->front();
  EXPECT_EQ(curve.kind(), CollectiveKind::kAllToAll);
  EXPECT_EQ(curve.ranks(), 4);
  EXPECT_EQ(curve.nodes(), 1);
  EXPECT_EQ(curve.points(), (std::vector<CurvePoint>{{268435456, 20500}, {536870912, 40000}}));
}

TEST(NcclTests, AreReadBehindTheLaunchersPrefixes) {
  const auto plain = ReadNcclTests(kNew, "log");
  for (const char* prefix : {"[1,0]<stdout>:", "[1,0]<stdout>: ", "0: ", "12: "}) {
    std::vector<std::string> lines;
    for (absl::string_view line : absl::StrSplit(kNew, '\n')) {
      lines.push_back(absl::StrCat(prefix, line, "\r"));
    }
    const auto curves = ReadNcclTests(absl::StrJoin(lines, "\n"), "log");
    ASSERT_TRUE(curves.ok()) << prefix << curves.status();
    EXPECT_EQ(curves->front().subject(), plain->front().subject());
    EXPECT_EQ(curves->front().points(), plain->front().points());
  }
}

TEST(NcclTests, AreReadRunAfterRun) {
  const auto curves = ReadNcclTests(absl::StrCat(kNew, kOld), "log");
  ASSERT_TRUE(curves.ok()) << curves.status();
  ASSERT_EQ(curves->size(), 2u);
  EXPECT_EQ((*curves)[0].kind(), CollectiveKind::kAllReduce);
  EXPECT_EQ((*curves)[1].kind(), CollectiveKind::kAllToAll);
  EXPECT_EQ((*curves)[1].ranks(), 4);
}

TEST(NcclTests, TakeWhatTheyDoNotSayFromTheFilesNameOrHints) {
  const std::string rows =
      "  1048576 262144 float sum 100 10.49 7.86 0 101 10.38 7.79 0\n"
      "  2097152 524288 float sum 200 10.49 7.86 0 201 10.43 7.82 0\n";
  EXPECT_THAT(std::string(ReadNcclTests(rows, "x").status().message()), HasSubstr("--kind"));
  EXPECT_THAT(std::string(ReadNcclTests(rows, "logs/reduce_scatter_perf.txt").status().message()),
              HasSubstr("--ranks"));
  const auto curves = ReadNcclTests(rows, "logs/reduce_scatter_perf.txt", {.ranks = 4});
  ASSERT_TRUE(curves.ok()) << curves.status();
  EXPECT_EQ(curves->front().kind(), CollectiveKind::kReduceScatter);
  const auto hinted = ReadNcclTests(rows, "x", {.kind = CollectiveKind::kAllGather, .ranks = 4});
  ASSERT_TRUE(hinted.ok()) << hinted.status();
  EXPECT_EQ(hinted->front().kind(), CollectiveKind::kAllGather);
}

TEST(NcclTests, AreRefusedWhereTheyCannotBeWhatTheyAreCalled) {
  const auto message = [](absl::string_view text) {
    return std::string(ReadNcclTests(text, "log").status().message());
  };
  const auto with = [](absl::string_view from, absl::string_view to) {
    return absl::StrReplaceAll(kNew, {{from, to}});
  };
  EXPECT_THAT(message(with("all_reduce_perf", "all_gather_perf")),
              HasSubstr("log:13-15: busbw is 1 of algbw, where all_gather of 2 ranks has 0.5"));
  EXPECT_THAT(message(with("all_reduce_perf", "reduce_perf")), HasSubstr("'reduce'"));
  EXPECT_THAT(message(with("34.80    0.00    0.00      0", "34.80    0.00    0.00      3")),
              HasSubstr("log:13: 3 results were wrong"));
  EXPECT_THAT(message(with("1678.0   20.00   20.00      0\n", "16\n")),
              HasSubstr("log:14: a measurement of 10 columns; is the line cut short?"));
  EXPECT_THAT(message(with("  36.40", "  -1.0")), HasSubstr("log:13: '-1.0' is no time"));
  EXPECT_THAT(message(with("  36.40", "    nan")), HasSubstr("log:13: 'nan' is no time"));
  EXPECT_THAT(message(with("Rank  1", "Rank  0")), HasSubstr("one rank alone"));
  EXPECT_THAT(message("nothing\n"), HasSubstr("log: no line of it is a measurement"));
}

TEST(ParamComms, AreReadByTheirMedianLatency) {
  const std::string text =
      "[Rank   0] host a device: cuda:0 local_rank: 0 world_size: 8, master_ip: x\n"
      "\tCOMMS-RES-all_to_allv-float32  size (B) nElementsPerRank Latency(us):p50 p75 p95 Min Max "
      "AlgBW(GB/s) BusBW(GB/s)\n"
      "0: \tCOMMS-RES-all_to_allv-float32   1024  256  50.0  55.1  60.2  49.0  61.0  0.020  0.018\n"
      "0: \tCOMMS-RES-all_to_allv-float32   2048  512  60.0  65.1  70.2  59.0  71.0  0.034  0.030\n"
      "\tCOMMS-RES-QUANT-all_reduce-float32  1024 256 1 2 3 4\n";
  const auto curves = ReadParamComms(text, "log");
  ASSERT_TRUE(curves.ok()) << curves.status();
  EXPECT_EQ(curves->front().subject(), (Curve::Subject{CollectiveKind::kAllToAll, 8, 1, "log"}));
  EXPECT_EQ(curves->front().points(), (std::vector<CurvePoint>{{1024, 50}, {2048, 60}}));
  EXPECT_THAT(
      std::string(ReadParamComms(text.substr(0, text.size() / 2), "log").status().message()),
      HasSubstr("log:"));
  EXPECT_FALSE(ReadParamComms("COMMS-RES-all_reduce-float32 8 2 1", "log").ok());
}

TEST(CurveTable, ReadsVTrainsByTheNameOfItsFile) {
  const std::string text =
      "size(B),count,type,time(ns),busbw(GB/s),time(ns),busbw(GB/s)\n"
      "1048576,262144,float,44210,23.72,45100,23.25\n2097152,524288,float,53430,39.25,51130,41\n";
  const auto curves = ReadCurves(text, "a100/AR_GPU4_1M_1024M_LUT");
  ASSERT_TRUE(curves.ok()) << curves.status();
  EXPECT_EQ(curves->front().ranks(), 4);
  EXPECT_EQ(curves->front().points().front(), (CurvePoint{1048576, 44.21}));
  EXPECT_THAT(std::string(ReadCurves(text, "lut").status().message()), HasSubstr("--ranks"));
}

TEST(CurveTable, ReadsVidursByRanksAndNodes) {
  const auto curves = ReadCurves(
      ",time_stats.send_recv.median,rank,num_workers,size,collective,devices_per_node\n"
      "0,0.012,0,2,2048,send_recv,1\n1,0.014,0,2,10240,send_recv,1\n"
      "2,0.004,0,2,2048,send_recv,2\n3,0.005,0,2,10240,send_recv,2\n",
      "t.csv");
  ASSERT_TRUE(curves.ok()) << curves.status();
  ASSERT_EQ(curves->size(), 2u);
  EXPECT_EQ((*curves)[0].subject(), (Curve::Subject{CollectiveKind::kSendRecv, 2, 1, "t.csv"}));
  EXPECT_NEAR((*curves)[0].points()[1].micros, 5, 1e-9);
  EXPECT_EQ((*curves)[1].nodes(), 2);
}

TEST(CurveTable, ReadsPublishedLogsByTheirComment) {
  const auto curves = ReadCurves(
      "# device: A100; nranks 16; gpus_per_node 8; source: x\n"
      "bytes,time_us_out_of_place,time_us_in_place\n8,36.4,34.6\n16,38,N/A\n",
      "a100_allreduce.csv");
  ASSERT_TRUE(curves.ok()) << curves.status();
  EXPECT_EQ(curves->front().subject(),
            (Curve::Subject{CollectiveKind::kAllReduce, 16, 2, "a100_allreduce.csv"}));
  EXPECT_EQ(curves->front().points(), (std::vector<CurvePoint>{{8, 35.5}, {16, 38}}));
}

TEST(Curves, SayWhatTheyCouldNotRead) {
  EXPECT_THAT(std::string(ReadCurves("", "f").status().message()), HasSubstr("f: neither"));
  EXPECT_THAT(std::string(ReadCurves("a,b\n1,2\n", "f").status().message()),
              HasSubstr("no table of collectives"));
}

}  // namespace
}  // namespace ebb::perfmodel
