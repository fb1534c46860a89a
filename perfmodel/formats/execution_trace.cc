#include "perfmodel/formats/execution_trace.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "perfmodel/formats/json_records.h"

namespace ebb::perfmodel {
namespace {

using nlohmann::json;

constexpr int64_t kMost = int64_t{1} << 50;  // of elements: sums stay far from overflow

int64_t Count(const json& value) {
  return value.is_number_integer() ? std::clamp<int64_t>(value.get<int64_t>(), 0, kMost) : 0;
}

// [tensor, storage, offset, elements, bytes of an element, device], or lists of them.
void AddTensors(const json& value, int64_t& elements, int64_t& element_bytes) {
  if (!value.is_array() || value.empty()) return;
  if (value[0].is_array()) {
    for (const json& inner : value) AddTensors(inner, elements, element_bytes);
  } else if (value.size() >= 5 && value[3].is_number_integer()) {
    elements = std::min(kMost, elements + Count(value[3]));
    element_bytes = Count(value[4]);
  }
}

// By position: tensors, sequence, group, rank, NAME, in splits, out splits; or sequence, group,
// rank, "wait". The group is [name, description], or its address.
RecordedCollective ByPosition(const json& inputs, const json& outputs) {
  RecordedCollective collective;
  if (!inputs.is_array()) return collective;
  const auto name =
      std::find_if(inputs.begin(), inputs.end(), [](const json& it) { return it.is_string(); });
  if (name == inputs.end()) return collective;
  collective.name = name->get<std::string>();
  const size_t at = name - inputs.begin();
  if (at >= 4) AddTensors(inputs[0], collective.in_elements, collective.element_bytes);
  if (at >= 3) {
    const json& sequence = inputs[at - 3];
    if (sequence.is_number_integer()) collective.sequence = sequence.get<int64_t>();
    const json& group = inputs[at - 2];
    if (group.is_array() && !group.empty() && group[0].is_string()) {
      collective.group = group[0].get<std::string>();
    } else if (group.is_number_integer()) {
      collective.address = group.get<int64_t>();
    }
  }
  if (at + 2 < inputs.size()) {
    collective.in_split = IntegersOf(inputs[at + 1]);
    collective.out_split = IntegersOf(inputs[at + 2]);
  }
  AddTensors(outputs, collective.out_elements, collective.element_bytes);
  return collective;
}

std::vector<std::vector<int64_t>> Dims(const json& shapes) {
  std::vector<std::vector<int64_t>> dims;
  if (!shapes.is_array()) return dims;
  for (const json& shape : shapes) dims.push_back(IntegersOf(shape));
  return dims;
}

// Newer traces name what they say of a collective.
void ReadAttribute(const std::string& name, const json& value, RecordedCollective& collective) {
  if (name == "collective_name" && value.is_string()) {
    collective.name = value.get<std::string>();
  } else if (name == "dtype" && value.is_string()) {
    collective.dtype = value.get<std::string>();
  } else if (name == "pg_name" && value.is_string()) {
    collective.group = value.get<std::string>();
  } else if (name == "in_msg_nelems") {
    collective.in_elements = Count(value);
  } else if (name == "out_msg_nelems") {
    collective.out_elements = Count(value);
  } else if (name == "pg_size" || name == "group_size") {
    collective.group_size = Count(value);
  }
}

void ReadFlat(const json& record, ExecutionNode& node) {
  node.parent = IntegerIn(record, "parent").value_or(0);
  node.thread = IntegerIn(record, "tid").value_or(0);
  node.record_function = IntegerIn(record, "rf_id").value_or(-1);
  node.sequence = IntegerIn(record, "seq_id").value_or(-1);
  node.dims = Dims(FieldIn(record, "input_shapes"));
}

void ReadNested(const json& record, ExecutionNode& node) {
  node.parent = IntegerIn(record, "ctrl_deps").value_or(0);
  node.dims = Dims(FieldIn(FieldIn(record, "inputs"), "shapes"));
  for (const json& attribute : FieldIn(record, "attrs")) {
    const auto name = StringIn(attribute, "name");
    const auto value = IntegerIn(attribute, "value");
    if (!name || !value) continue;
    if (*name == "tid") node.thread = *value;
    if (*name == "rf_id") node.record_function = *value;
    if (*name == "seq_id") node.sequence = *value;
  }
}

absl::Status ReadNode(const json& record, std::vector<ExecutionNode>& nodes) {
  const auto id = IntegerIn(record, "id");
  const auto name = StringIn(record, "name");
  if (!id || !name) return absl::InvalidArgumentError("a node needs id and name");
  const json& inputs = FieldIn(record, "inputs");
  const bool nested = inputs.is_object();
  if (!nested && !inputs.is_array()) {
    return absl::InvalidArgumentError(absl::StrCat("node ", *id, " (", *name, ") has no inputs"));
  }
  ExecutionNode node{.id = *id, .name = *name};
  nested ? ReadNested(record, node) : ReadFlat(record, node);
  if (node.name == "record_param_comms") {
    const json& outputs = FieldIn(record, "outputs");
    node.collective = nested ? ByPosition(FieldIn(inputs, "values"), FieldIn(outputs, "values"))
                             : ByPosition(inputs, outputs);
    for (const json& attribute : FieldIn(record, "attrs")) {
      const auto of = StringIn(attribute, "name");
      if (of) ReadAttribute(*of, FieldIn(attribute, "value"), *node.collective);
    }
  }
  nodes.push_back(std::move(node));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ExecutionTrace> ReadExecutionTrace(absl::string_view text) {
  ExecutionTrace trace;
  EBB_RETURN_IF_ERROR(ReadJsonRecords(
      text, "nodes",
      {.record = [&](const json& record, size_t) { return ReadNode(record, trace.nodes); },
       .field =
           [&](const std::string& key, const json& value) {
             if (key == "schema" && value.is_string()) trace.schema = value.get<std::string>();
           }}));
  std::stable_sort(trace.nodes.begin(), trace.nodes.end(),
                   [](const ExecutionNode& a, const ExecutionNode& b) { return a.id < b.id; });
  return trace;
}

}  // namespace ebb::perfmodel
