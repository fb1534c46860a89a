#include "perfmodel/formats/comms_trace.h"

#include <gtest/gtest.h>

#include "perfmodel/formats/collective_names.h"

namespace ebb::perfmodel {
namespace {

constexpr char kTrace[] = R"([
  {"comms": "init", "pg_id": 0, "req": 0, "global_ranks": [0, 1, 2, 3], "world_size": 4},
  {"comms": "all_to_allv", "req": 5, "startTime_ns": 1000, "pg_id": 0, "world_size": 4,
   "in_msg_size": 40, "out_msg_size": 44, "dtype": "Int", "in_split": [10, 10, 10, 10],
   "out_split": [11, 11, 11, 11], "markers": ["## forward ##"]},
  {"comms": "wait", "req": 5},
  {"comms": "send", "src_rank": 0, "dst_rank": 2, "use_batch": true, "in_msg_size": 3,
   "out_msg_size": 3, "dtype": "Half", "world_size": 4},
  {"compute": "gemm", "count": 3}])";

TEST(CommsTrace, EntriesAreReadAndWritten) {
  const auto entries = ReadCommsTrace(kTrace);
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 5u);
  EXPECT_EQ((*entries)[0].global_ranks.size(), 4u);
  EXPECT_EQ((*entries)[1].out_split, (std::vector<int64_t>{11, 11, 11, 11}));
  EXPECT_EQ((*entries)[1].markers, std::vector<std::string>{"## forward ##"});
  EXPECT_EQ((*entries)[2].request, 5);
  EXPECT_TRUE((*entries)[3].batched);
  EXPECT_EQ((*entries)[4].count, 3);
  const std::string written = WriteCommsTrace(*entries);
  const auto again = ReadCommsTrace(written);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(WriteCommsTrace(*again), written);
  EXPECT_EQ((*again)[1].in_elements, 40);
}

TEST(CommsTrace, EntriesAreWhatPredictorsAreAsked) {
  const auto entries = ReadCommsTrace(kTrace);
  ASSERT_TRUE(entries.ok());
  const auto exchange = CollectiveOf((*entries)[1]);
  ASSERT_TRUE(exchange.ok()) << exchange.status();
  EXPECT_EQ(exchange->kind, CollectiveKind::kAllToAll);
  EXPECT_EQ(exchange->ranks, 4);
  EXPECT_EQ(exchange->bytes, 160);
  const auto send = CollectiveOf((*entries)[3]);
  ASSERT_TRUE(send.ok());
  EXPECT_EQ(send->ranks, 2);
  EXPECT_EQ(send->bytes, 6);
  EXPECT_EQ(CollectiveOf((*entries)[2]).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(CommsTrace, DamageIsRefusedWithItsPlace) {
  const absl::string_view whole = kTrace;
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(ReadCommsTrace(whole.substr(0, size)).status().code(),
              absl::StatusCode::kInvalidArgument)
        << size;
  }
  const auto message = [](absl::string_view text) {
    return std::string(ReadCommsTrace(text).status().message());
  };
  EXPECT_EQ(message(R"([{"comms": "a"}, {}])"),
            "record 1: an entry needs comms, compute or markers");
  EXPECT_EQ(message(R"([{"comms": "a", "in_msg_size": -4}])").substr(0, 9), "record 0:");
  EXPECT_EQ(message("[5]"), "record 0: is no object");
}

TEST(CollectiveNames, FrameworksNamesAreKnown) {
  const auto kind = [](absl::string_view name) {
    const auto parsed = ParseCollectiveName(name);
    return parsed.ok() ? std::string(Name(*parsed)) : "";
  };
  EXPECT_EQ(kind("allreduce"), "all_reduce");
  EXPECT_EQ(kind("_allgather_base"), "all_gather");
  EXPECT_EQ(kind("reduce_scatter_tensor_coalesced"), "reduce_scatter");
  EXPECT_EQ(kind("all_to_allv"), "all_to_all");
  EXPECT_EQ(kind("barrier"), "");
  EXPECT_EQ(ElementBytes("c10::BFloat16").value_or(0), 2);
  EXPECT_EQ(ElementBytes("torch.float32").value_or(0), 4);
  EXPECT_EQ(ElementBytes("quaternion").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CountedBytes(CollectiveKind::kAllGather, 1, 8), 8);
  EXPECT_EQ(CountedBytes(CollectiveKind::kReduceScatter, 8, 1), 8);
}

}  // namespace
}  // namespace ebb::perfmodel
