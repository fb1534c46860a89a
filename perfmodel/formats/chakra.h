// MLCommons Chakra's execution traces, which simulators such as ASTRA-sim take: a graph of what a
// rank computes and exchanges, one file a rank ("NAME.RANK.et"). schema/protobuf/et_def.proto of
// mlcommons/chakra is the format. Free functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ebb::perfmodel {

enum class ChakraType : uint8_t {
  kInvalid = 0,
  kMetadata = 1,
  kMemoryLoad = 2,
  kMemoryStore = 3,
  kCompute = 4,
  kSend = 5,
  kReceive = 6,
  kCollective = 7,
};

// Of the attribute "comm_type".
enum class ChakraCollective : uint8_t {
  kAllReduce = 0,
  kReduce = 1,
  kAllGather = 2,
  kGather = 3,
  kScatter = 4,
  kBroadcast = 5,
  kAllToAll = 6,
  kReduceScatter = 7,
  kReduceScatterBlock = 8,
  kBarrier = 9,
};

// A list, as it is written: `number` of the schema's oneof, and its message.
struct ChakraList {
  int number = 0;
  std::string message;
  bool operator==(const ChakraList&) const = default;
};

struct ChakraAttribute {
  std::string name;
  // Integers of all widths are int64_t here and are written as int64_val.
  std::variant<int64_t, double, bool, std::string, ChakraList> value;
  bool operator==(const ChakraAttribute&) const = default;
};

struct ChakraOperands {
  std::string values, shapes, types;
  bool operator==(const ChakraOperands&) const = default;
};

struct ChakraNode {
  uint64_t id = 0;
  std::string name;
  ChakraType type = ChakraType::kInvalid;
  std::vector<uint64_t> control_deps = {}, data_deps = {};
  uint64_t start_us = 0, micros = 0;
  ChakraOperands inputs = {}, outputs = {};
  std::vector<ChakraAttribute> attributes = {};

  // Of an attribute, where it is there and a whole number (or a truth).
  std::optional<int64_t> Integer(absl::string_view attribute) const;
  bool operator==(const ChakraNode&) const = default;
};

struct ChakraTrace {
  std::string version;
  std::vector<ChakraAttribute> attributes;
  std::vector<ChakraNode> nodes;  // as in the file
  bool operator==(const ChakraTrace&) const = default;
};

// Messages behind their lengths: the metadata, then the nodes; gzip is the caller's. Unknown fields
// are skipped. InvalidArgument with the message's number or the byte: cut off, or no such trace;
// two nodes of one id.
absl::StatusOr<ChakraTrace> ReadChakra(absl::string_view text);
std::string WriteChakra(const ChakraTrace& trace);

// The JSON form, {"workload_graph": [{Id, Name, NodeType, ctrlDeps, data_deps, runtime,
// is_cpu_op, ...}]}; what else a node has are attributes where they are plain values.
absl::StatusOr<ChakraTrace> ReadChakraJson(absl::string_view text);
std::string WriteChakraJson(const ChakraTrace& trace);

}  // namespace ebb::perfmodel
