#include "perfmodel/formats/kineto.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "perfmodel/formats/json_records.h"

namespace ebb::perfmodel {
namespace {

std::string File(const std::string& events, const std::string& fields = "") {
  return absl::StrCat("{\"schemaVersion\": 1, ", fields, "\"traceEvents\": [", events, "]}");
}

constexpr char kLaunch[] =
    R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":7,"tid":9,
        "ts":1694128201428006,"dur":5,"args":{"correlation":40}},)";
constexpr char kKernel[] =
    R"({"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":3,"ts":1694128201428013,"dur":8,
        "args":{"correlation":40,"stream":3,"device":0}},)";
constexpr char kOp[] =
    R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":9,"ts":1694128201428000,"dur":20,
        "args":{"Input Dims":[[2,3],[3,4],[]]}})";

TEST(Kineto, EventsOfTheOldGenerationComeInOrderFromTheFirst) {
  const auto trace = ReadKineto(
      File(absl::StrCat(kLaunch, kKernel, R"({"ph":"M","name":"process_name"},)", kOp),
           R"("distributedInfo":{"rank":3,"world_size":8},"deviceProperties":[{"name":"V100"}],)"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->rank, 3);
  EXPECT_EQ(trace->ranks, 8);
  EXPECT_EQ(trace->device, "V100");
  EXPECT_EQ(trace->origin_us, 1694128201428000);
  ASSERT_EQ(trace->events.size(), 3u);
  EXPECT_EQ(trace->events[0].name, "aten::mm");
  EXPECT_EQ(trace->events[0].dims, (std::vector<std::vector<int64_t>>{{2, 3}, {3, 4}, {}}));
  EXPECT_EQ(trace->events[1].kind, KinetoKind::kRuntime);
  EXPECT_EQ(trace->events[1].begin, 6);
  EXPECT_EQ(trace->events[2].stream, 3);
  EXPECT_EQ(trace->events[2].correlation, 40);
  EXPECT_EQ(trace->events[2].end(), 21);
}

TEST(Kineto, TheNewGenerationHasFractionsABaseAndMessagesOfCollectives) {
  const auto trace = ReadKineto(File(
      R"({"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","tid":20,"ts":100.125,"dur":2.5,
          "args":{"stream":20,"correlation":1,"Collective name":"allreduce","In msg nelems":64,
                  "Out msg nelems":64,"Group size":4,"dtype":"Float","Process Group Name":"0"}})",
      R"("baseTimeNanoseconds": 1700000000000000000,)"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->origin_us, 1700000000000100);
  const KinetoEvent& event = trace->events.at(0);
  EXPECT_DOUBLE_EQ(event.begin, 0.125);
  EXPECT_DOUBLE_EQ(event.micros, 2.5);
  EXPECT_EQ(event.collective, "allreduce");
  EXPECT_EQ(event.in_elements, 64);
  EXPECT_EQ(event.group_size, 4);
  EXPECT_EQ(event.group, "0");
}

TEST(Kineto, WhatIsWrittenIsReadAgain) {
  KinetoTrace trace{.rank = 1, .ranks = 2, .device = "A \"100\"", .origin_us = 5000};
  trace.events = {
      {.kind = KinetoKind::kOp, .name = "mm", .begin = 0, .micros = 9, .dims = {{2, 3}}},
      {.kind = KinetoKind::kRuntime, .name = "launch", .begin = 1, .micros = 2, .correlation = 7},
      {.kind = KinetoKind::kMemcpy,
       .name = "copy",
       .begin = 2.5,
       .micros = 3,
       .thread = 4,
       .correlation = 7,
       .stream = 4,
       .bytes = 99},
      {.kind = KinetoKind::kKernel,
       .name = "nccl",
       .begin = 3,
       .micros = 1,
       .stream = 5,
       .collective = "allreduce",
       .dtype = "Float",
       .group = "g",
       .in_elements = 3,
       .out_elements = 4,
       .group_size = 2}};
  const std::string text = WriteKineto(trace);
  const auto read = ReadKineto(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(WriteKineto(*read), text);
  EXPECT_EQ(read->origin_us, 5000);
  EXPECT_EQ(read->device, trace.device);
  EXPECT_EQ(read->events[2].bytes, 99);
  EXPECT_EQ(read->events[3].out_elements, 4);
}

void ExpectRefused(const std::string& text, absl::string_view part) {
  const absl::Status status = ReadKineto(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_NE(status.message().find(part), absl::string_view::npos) << status;
}

TEST(Kineto, DamageIsRefusedWithItsPlace) {
  const std::string whole = File(absl::StrCat(kLaunch, kKernel, kOp));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(ReadKineto(whole.substr(0, size)).status().code(), absl::StatusCode::kInvalidArgument)
        << size;
  }
  ExpectRefused(whole.substr(0, 60), "byte 61");
  ExpectRefused("[]", "not an object");
  ExpectRefused("{}", "no array traceEvents");
  ExpectRefused(R"({"traceEvents": {}})", "traceEvents is no array");
  ExpectRefused(File(absl::StrCat(kLaunch, "[]")), "record 1");
  ExpectRefused(File(R"({"ph":"X","cat":"kernel","name":"k","ts":1,"dur":-1})"), "record 0");
  ExpectRefused(File(R"({"ph":"X","cat":"kernel","name":"k","ts":1})"), "name, ts and dur");
  ExpectRefused(File(R"({"ph":"X","cat":"kernel","name":"k","ts":1e999,"dur":1})"), "byte");
}

TEST(Kineto, NoNestingIsTooDeepForItsReader) {
  ExpectRefused(std::string(1'000'000, '['), "not an object");
  ExpectRefused(File(absl::StrCat("{\"a\":", std::string(1'000'000, '['))), "deeper than 64");
  ExpectRefused(absl::StrCat("{\"a\":", std::string(1'000'000, '[')), "deeper than 64");
}

TEST(JsonRecords, LimitsHold) {
  const JsonHandlers handlers{
      .record = [](const nlohmann::json&, size_t) { return absl::OkStatus(); }, .field = {}};
  const auto refused = [&](absl::string_view text, JsonLimits limits) {
    return std::string(ReadJsonRecords(text, "", handlers, limits).message());
  };
  EXPECT_EQ(refused("[{},{}]", {}), "");
  EXPECT_EQ(refused("[{},{}]", {.records = 1}), "record 1: there are more than 1");
  EXPECT_EQ(refused("[{\"a\":[1,2,3]}]", {.values = 4}), "record 0: has more than 4 values");
  EXPECT_EQ(refused("[{\"a\":[[1]]}]", {.depth = 4}), "record 0: is nested deeper than 4");
  EXPECT_EQ(refused("{}", {}), "is an object, not an array");
  EXPECT_EQ(refused("7", {}), "is a single value");
}

}  // namespace
}  // namespace ebb::perfmodel
