#include "perfmodel/formats/chakra.h"

#include <gtest/gtest.h>

#include "perfmodel/formats/wire.h"

namespace ebb::perfmodel {
namespace {

ChakraTrace Sample() {
  ChakraTrace trace{.version = "0.0.4", .attributes = {{"schema", "1.0.1"}}, .nodes = {}};
  ChakraNode compute{.id = 216, .name = "aten::mm", .type = ChakraType::kCompute};
  compute.control_deps = {3};
  compute.start_us = 12;
  compute.micros = 318;
  compute.inputs = {"[1]", "[[2, 3]]", "['Tensor(float)']"};
  compute.attributes = {{"is_cpu_op", true}, {"seq_id", int64_t{-1}}, {"share", 0.25}};
  ChakraNode collective{.id = 435, .name = "nccl", .type = ChakraType::kCollective};
  collective.data_deps = {216, 300};
  collective.attributes = {{"comm_type", int64_t{5}},
                           {"comm_size", int64_t{1} << 40},
                           {"involved_dim", ChakraList{28, std::string("\x0a\x01\x01")}}};
  trace.nodes = {compute, collective};
  return trace;
}

TEST(Chakra, WhatIsWrittenIsReadAgain) {
  const auto read = ReadChakra(WriteChakra(Sample()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, Sample());
  EXPECT_EQ(read->nodes[1].Integer("comm_size"), int64_t{1} << 40);
  EXPECT_EQ(read->nodes[0].Integer("is_cpu_op"), 1);
  EXPECT_EQ(read->nodes[0].Integer("seq_id"), -1);
  EXPECT_FALSE(read->nodes[0].Integer("share").has_value());
}

// As the schema's own writer puts it: metadata {version "1"}, node {id 1, name "a", type 4,
// ctrl_deps 2 and 3 unpacked, attr {name "x", sint64_val -3}}.
TEST(Chakra, BytesOfTheSchemaAreUnderstood) {
  const std::string bytes(
      "\x03\x0a\x01\x31\x13\x08\x01\x12\x01\x61\x18\x04\x20\x02\x20\x03\x52\x06\x0a\x01x\x88\x01"
      "\x05",
      24);
  const auto read = ReadChakra(bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->version, "1");
  ASSERT_EQ(read->nodes.size(), 1u);
  EXPECT_EQ(read->nodes[0].name, "a");
  EXPECT_EQ(read->nodes[0].control_deps, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(read->nodes[0].Integer("x"), -3);
}

TEST(Chakra, DamageIsRefusedOrIsAShorterTrace) {
  const std::string whole = WriteChakra(Sample());
  size_t shorter = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto read = ReadChakra(absl::string_view(whole).substr(0, size));
    if (read.ok()) {
      ++shorter;  // cut between two messages
    } else {
      EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << size;
    }
  }
  EXPECT_EQ(shorter, 2u);
  const auto refused = [](const std::string& bytes, absl::string_view part) {
    const absl::Status status = ReadChakra(bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(part), absl::string_view::npos) << status;
  };
  refused("", "is empty");
  refused(std::string(11, '\xff'), "longer than ten bytes");
  refused(std::string("\xff\xff\xff\xff\x7f", 5), "bytes should follow");
  refused(std::string("\x02\x0f\x00", 3), "message 0 before byte 0: byte 0: type 7");
  refused(std::string("\x00\x02\x18\x63", 4), "a node has type 99");
  ChakraTrace twice = Sample();
  twice.nodes[1].id = 216;
  refused(WriteChakra(twice), "a second node 216");
}

TEST(Chakra, TheJsonFormIsReadAndWritten) {
  const auto read = ReadChakraJson(
      R"({"workload_graph": [{"Id": 216, "Name": "mm", "NodeType": 4, "ctrlDeps": [3],
          "data_deps": [7, 8], "runtime": 318, "is_cpu_op": true}], "ngpus": 8, "soc": "s"})");
  ASSERT_TRUE(read.ok()) << read.status();
  const ChakraNode& node = read->nodes.at(0);
  EXPECT_EQ(node.id, 216u);
  EXPECT_EQ(node.type, ChakraType::kCompute);
  EXPECT_EQ(node.data_deps, (std::vector<uint64_t>{7, 8}));
  EXPECT_EQ(node.micros, 318u);
  EXPECT_EQ(node.Integer("is_cpu_op"), 1);
  const auto again = ReadChakraJson(WriteChakraJson(*read));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *read);
}

TEST(Chakra, DamagedJsonIsRefused) {
  for (const char* text : {"", "{}", "[]", R"({"workload_graph": [{"Id": 1}]})",
                           R"({"workload_graph": [{"Id": -1, "Name": "a", "NodeType": 4}]})",
                           R"({"workload_graph": [{"Id": 1, "Name": "a", "NodeType": 44}]})",
                           R"({"workload_graph": [{"Id": 1, "Name": "a", "NodeType": 4},
                               {"Id": 1, "Name": "b", "NodeType": 4}]})"}) {
    EXPECT_EQ(ReadChakraJson(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace ebb::perfmodel
