#include "perfmodel/formats/execution_trace.h"

#include <gtest/gtest.h>

namespace ebb::perfmodel {
namespace {

constexpr char kOld[] = R"({"schema": "1.0.1", "pid": 5, "nodes": [
  {"name": "record_param_comms", "id": 9, "rf_id": 7, "parent": 8, "seq_id": -1, "tid": 2,
   "inputs": [[718, 715, 0, 6144, 4, "cuda:0"], 147, 94594108284448, 0, "all_to_allv", [768, 5],
              [767, 6]],
   "input_shapes": [[6144], [], [], [], []], "outputs": []},
  {"name": "aten::mm", "id": 4, "rf_id": 3, "parent": 1, "seq_id": 440, "tid": 1,
   "inputs": [], "input_shapes": [[2, 3], [3, 4]], "outputs": []},
  {"name": "record_param_comms", "id": 11, "rf_id": 8, "parent": 8, "tid": 2,
   "inputs": [147, 0, 0, "wait", [], []], "input_shapes": [], "outputs": []}]})";

TEST(ExecutionTrace, TheFlatSchemaHasCollectivesByPosition) {
  const auto trace = ReadExecutionTrace(kOld);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->schema, "1.0.1");
  ASSERT_EQ(trace->nodes.size(), 3u);
  EXPECT_EQ(trace->nodes[0].name, "aten::mm");
  EXPECT_EQ(trace->nodes[0].dims, (std::vector<std::vector<int64_t>>{{2, 3}, {3, 4}}));
  EXPECT_EQ(trace->nodes[0].sequence, 440);
  EXPECT_EQ(trace->nodes[1].thread, 2);
  EXPECT_EQ(trace->nodes[1].record_function, 7);
  ASSERT_TRUE(trace->nodes[1].collective.has_value());
  const RecordedCollective& collective = *trace->nodes[1].collective;
  EXPECT_EQ(collective.name, "all_to_allv");
  EXPECT_EQ(collective.sequence, 147);
  EXPECT_EQ(collective.address, 94594108284448);
  EXPECT_EQ(collective.in_elements, 6144);
  EXPECT_EQ(collective.element_bytes, 4);
  EXPECT_EQ(collective.in_split, (std::vector<int64_t>{768, 5}));
  EXPECT_EQ(collective.out_split, (std::vector<int64_t>{767, 6}));
  EXPECT_EQ(trace->nodes[2].collective->name, "wait");
  EXPECT_EQ(trace->nodes[2].collective->sequence, 147);
  EXPECT_FALSE(trace->nodes[0].collective.has_value());
}

constexpr char kNew[] = R"({"schema": "1.1.0-chakra.0.0.4", "nodes": [
  {"id": 437, "name": "record_param_comms", "ctrl_deps": 436,
   "inputs": {"values": [[[434, 435, 0, 100, 4, "cuda:0"], [436, 437, 0, 20, 4, "cuda:0"]], 33,
                         ["0", "default_pg"], 0, "broadcast", [], [], 0, 1, 2],
              "shapes": [[[100], [20]], []], "types": []},
   "outputs": {"values": [[[434, 435, 0, 100, 4, "cuda:0"]]], "shapes": [], "types": []},
   "attrs": [{"name": "rf_id", "type": "uint64", "value": 115},
             {"name": "tid", "type": "uint64", "value": 1},
             {"name": "collective_name", "type": "string", "value": "broadcast"},
             {"name": "dtype", "type": "string", "value": "Float"},
             {"name": "out_msg_nelems", "type": "uint64", "value": 121},
             {"name": "pg_size", "type": "uint64", "value": 2}]}]})";

TEST(ExecutionTrace, TheNestedSchemaNamesWhatItSaysOfCollectives) {
  const auto trace = ReadExecutionTrace(kNew);
  ASSERT_TRUE(trace.ok()) << trace.status();
  const ExecutionNode& node = trace->nodes.at(0);
  EXPECT_EQ(node.parent, 436);
  EXPECT_EQ(node.record_function, 115);
  EXPECT_EQ(node.thread, 1);
  const RecordedCollective& collective = *node.collective;
  EXPECT_EQ(collective.name, "broadcast");
  EXPECT_EQ(collective.group, "0");
  EXPECT_EQ(collective.sequence, 33);
  EXPECT_EQ(collective.dtype, "Float");
  EXPECT_EQ(collective.in_elements, 120);
  EXPECT_EQ(collective.out_elements, 121);
  EXPECT_EQ(collective.group_size, 2);
}

TEST(ExecutionTrace, DamageIsRefused) {
  for (const absl::string_view whole : {absl::string_view(kOld), absl::string_view(kNew)}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_EQ(ReadExecutionTrace(whole.substr(0, size)).status().code(),
                absl::StatusCode::kInvalidArgument)
          << size;
    }
  }
  const auto refused = [](absl::string_view text, absl::string_view part) {
    const absl::Status status = ReadExecutionTrace(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(part), absl::string_view::npos) << status;
  };
  refused(R"({"nodes": [{"id": 3, "name": "a"}]})", "record 0: node 3 (a) has no inputs");
  refused(R"({"nodes": [{"id": 3, "name": "a", "inputs": []}, {"id": "x"}]})", "record 1");
  refused(R"({"nodes": 4})", "nodes is no array");
}

TEST(ExecutionTrace, WrongKindsOfOperandsAreNoCollective) {
  const auto trace = ReadExecutionTrace(
      R"({"nodes": [{"id": 1, "name": "record_param_comms", "inputs": ["x", {}, [[[[]]]], 1e300]},
                    {"id": 2, "name": "record_param_comms", "inputs": {"values": 7, "attrs": [3]}}]})");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->nodes[0].collective->name, "x");
  EXPECT_EQ(trace->nodes[1].collective->name, "");
}

}  // namespace
}  // namespace ebb::perfmodel
