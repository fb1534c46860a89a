// The JSON form of Chakra's traces.
#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "perfmodel/formats/chakra.h"
#include "perfmodel/formats/json_records.h"

namespace ebb::perfmodel {
namespace {

using nlohmann::json;

constexpr absl::string_view kNodes = "workload_graph";
constexpr absl::string_view kKnown[] = {"Id",       "Name",      "NodeType",
                                        "ctrlDeps", "data_deps", "runtime"};

std::vector<uint64_t> Ids(const json& list) {
  std::vector<uint64_t> ids;
  if (!list.is_array()) return ids;
  for (const json& id : list) {
    if (id.is_number_unsigned()) ids.push_back(id.get<uint64_t>());
  }
  return ids;
}

bool IsKnown(absl::string_view key) {
  return std::find(std::begin(kKnown), std::end(kKnown), key) != std::end(kKnown);
}

absl::Status ReadNode(const json& record, absl::flat_hash_set<uint64_t>& ids, ChakraTrace& trace) {
  const auto id = IntegerIn(record, "Id"), type = IntegerIn(record, "NodeType");
  const auto name = StringIn(record, "Name");
  if (!id || *id < 0 || !type || !name) {
    return absl::InvalidArgumentError("a node needs Id, Name and NodeType");
  }
  if (*type < 0 || *type > 10) {
    return absl::InvalidArgumentError(absl::StrCat("node ", *id, " has type ", *type));
  }
  ChakraNode node{.id = static_cast<uint64_t>(*id), .name = *name};
  if (!ids.insert(node.id).second) {
    return absl::InvalidArgumentError(absl::StrCat("a second node ", node.id));
  }
  node.type = static_cast<ChakraType>(*type);
  node.control_deps = Ids(FieldIn(record, "ctrlDeps"));
  node.data_deps = Ids(FieldIn(record, "data_deps"));
  node.micros =
      static_cast<uint64_t>(std::max<int64_t>(0, IntegerIn(record, "runtime").value_or(0)));
  for (const auto& [key, value] : record.items()) {
    if (IsKnown(key)) continue;
    if (value.is_boolean()) {
      node.attributes.push_back({key, value.get<bool>()});
    } else if (const auto integer = IntegerIn(record, key.c_str())) {
      node.attributes.push_back({key, *integer});
    } else if (value.is_number()) {
      node.attributes.push_back({key, value.get<double>()});
    } else if (value.is_string()) {
      node.attributes.push_back({key, value.get<std::string>()});
    }
  }
  trace.nodes.push_back(std::move(node));
  return absl::OkStatus();
}

json NodeJson(const ChakraNode& node) {
  json record = {{"Id", node.id},
                 {"Name", node.name},
                 {"NodeType", static_cast<int>(node.type)},
                 {"ctrlDeps", node.control_deps},
                 {"data_deps", node.data_deps},
                 {"runtime", node.micros}};
  for (const ChakraAttribute& attribute : node.attributes) {
    if (IsKnown(attribute.name)) continue;
    std::visit(
        [&](const auto& value) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(value)>, ChakraList>) {
            record[attribute.name] = value;
          }
        },
        attribute.value);
  }
  return record;
}

}  // namespace

absl::StatusOr<ChakraTrace> ReadChakraJson(absl::string_view text) {
  ChakraTrace trace;
  absl::flat_hash_set<uint64_t> ids;
  EBB_RETURN_IF_ERROR(ReadJsonRecords(
      text, kNodes,
      {.record = [&](const json& record, size_t) { return ReadNode(record, ids, trace); },
       .field =
           [&](const std::string& key, const json& value) {
             if (value.is_string()) {
               trace.attributes.push_back({key, value.get<std::string>()});
             } else if (value.is_number_integer()) {
               trace.attributes.push_back({key, value.get<int64_t>()});
             }
           }}));
  return trace;
}

std::string WriteChakraJson(const ChakraTrace& trace) {
  json nodes = json::array();
  for (const ChakraNode& node : trace.nodes) nodes.push_back(NodeJson(node));
  json file = {{std::string(kNodes), std::move(nodes)}};
  for (const ChakraAttribute& attribute : trace.attributes) {
    if (attribute.name == kNodes) continue;
    if (const auto* text = std::get_if<std::string>(&attribute.value)) file[attribute.name] = *text;
    if (const auto* number = std::get_if<int64_t>(&attribute.value)) {
      file[attribute.name] = *number;
    }
  }
  return file.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace ebb::perfmodel
