#include "perfmodel/formats/chakra.h"

#include <bit>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "perfmodel/formats/wire.h"

namespace ebb::perfmodel {
namespace {

// Numbers of AttributeProto's oneof; a list of values is one above its value.
constexpr int kDouble = 3, kFloat = 5, kInt64 = 9, kBool = 27, kString = 29, kBytes = 31;
constexpr int kFirstValue = 3, kLastValue = 32;
constexpr uint64_t kTypes = 11;

bool IsZigzag(int number) { return number == 15 || number == 17; }

std::string Text(absl::string_view bytes) { return std::string(bytes); }

void SetValue(const WireField& field, ChakraAttribute& attribute) {
  const int number = field.number;
  if (number < kFirstValue || number > kLastValue) return;
  if (number == kString || number == kBytes) {
    attribute.value = Text(field.bytes);
  } else if (number % 2 == 0) {
    attribute.value = ChakraList{number, Text(field.bytes)};
  } else if (number == kDouble) {
    attribute.value = std::bit_cast<double>(field.value);
  } else if (number == kFloat) {
    const auto narrow = static_cast<uint32_t>(field.value);
    attribute.value = static_cast<double>(std::bit_cast<float>(narrow));
  } else if (number == kBool) {
    attribute.value = field.value != 0;
  } else if (IsZigzag(number)) {
    attribute.value = static_cast<int64_t>((field.value >> 1) ^ (~(field.value & 1) + 1));
  } else if (field.type == WireType::kFixed32 && number == 23) {
    attribute.value = int64_t{static_cast<int32_t>(field.value)};
  } else {
    attribute.value = static_cast<int64_t>(field.value);
  }
}

absl::StatusOr<ChakraAttribute> ReadAttribute(absl::string_view message) {
  ChakraAttribute attribute;
  WireReader reader(message);
  while (!reader.done()) {
    EBB_ASSIGN_OR_RETURN(const WireField field, reader.Next());
    if (field.number == 1) attribute.name = Text(field.bytes);
    SetValue(field, attribute);
  }
  return attribute;
}

absl::StatusOr<ChakraOperands> ReadOperands(absl::string_view message) {
  ChakraOperands operands;
  WireReader reader(message);
  while (!reader.done()) {
    EBB_ASSIGN_OR_RETURN(const WireField field, reader.Next());
    if (field.number == 1) operands.values = Text(field.bytes);
    if (field.number == 2) operands.shapes = Text(field.bytes);
    if (field.number == 3) operands.types = Text(field.bytes);
  }
  return operands;
}

// One, or many in one field.
absl::Status ReadIds(const WireField& field, std::vector<uint64_t>& ids) {
  if (field.type != WireType::kBytes) {
    ids.push_back(field.value);
    return absl::OkStatus();
  }
  WireReader reader(field.bytes);
  while (!reader.done()) {
    EBB_ASSIGN_OR_RETURN(const uint64_t id, reader.Varint());
    ids.push_back(id);
  }
  return absl::OkStatus();
}

absl::Status ReadNodeField(const WireField& field, ChakraNode& node) {
  switch (field.number) {
    case 1:
      node.id = field.value;
      break;
    case 2:
      node.name = Text(field.bytes);
      break;
    case 3:
      if (field.value >= kTypes) {
        return absl::InvalidArgumentError(absl::StrCat("a node has type ", field.value));
      }
      node.type = static_cast<ChakraType>(field.value);
      break;
    case 4:
      return ReadIds(field, node.control_deps);
    case 5:
      return ReadIds(field, node.data_deps);
    case 6:
      node.start_us = field.value;
      break;
    case 7:
      node.micros = field.value;
      break;
    case 8: {
      EBB_ASSIGN_OR_RETURN(node.inputs, ReadOperands(field.bytes));
      break;
    }
    case 9: {
      EBB_ASSIGN_OR_RETURN(node.outputs, ReadOperands(field.bytes));
      break;
    }
    case 10: {
      EBB_ASSIGN_OR_RETURN(ChakraAttribute attribute, ReadAttribute(field.bytes));
      node.attributes.push_back(std::move(attribute));
      break;
    }
    default:
      break;
  }
  return absl::OkStatus();
}

absl::StatusOr<ChakraNode> ReadNode(absl::string_view message) {
  ChakraNode node;
  WireReader reader(message);
  while (!reader.done()) {
    EBB_ASSIGN_OR_RETURN(const WireField field, reader.Next());
    EBB_RETURN_IF_ERROR(ReadNodeField(field, node));
  }
  return node;
}

absl::Status ReadMetadata(absl::string_view message, ChakraTrace& trace) {
  WireReader reader(message);
  while (!reader.done()) {
    EBB_ASSIGN_OR_RETURN(const WireField field, reader.Next());
    if (field.number == 1) trace.version = Text(field.bytes);
    if (field.number != 2) continue;
    EBB_ASSIGN_OR_RETURN(ChakraAttribute attribute, ReadAttribute(field.bytes));
    trace.attributes.push_back(std::move(attribute));
  }
  return absl::OkStatus();
}

std::string AttributeMessage(const ChakraAttribute& attribute) {
  std::string message;
  AppendBytesField(1, attribute.name, message);
  if (const auto* integer = std::get_if<int64_t>(&attribute.value)) {
    AppendVarintField(kInt64, static_cast<uint64_t>(*integer), message);
  } else if (const auto* number = std::get_if<double>(&attribute.value)) {
    AppendFixedField(kDouble, WireType::kFixed64, std::bit_cast<uint64_t>(*number), message);
  } else if (const auto* truth = std::get_if<bool>(&attribute.value)) {
    AppendVarintField(kBool, *truth ? 1 : 0, message);
  } else if (const auto* text = std::get_if<std::string>(&attribute.value)) {
    AppendBytesField(kString, *text, message);
  } else if (const auto* list = std::get_if<ChakraList>(&attribute.value)) {
    AppendBytesField(list->number, list->message, message);
  }
  return message;
}

void AppendIds(int number, const std::vector<uint64_t>& ids, std::string& out) {
  if (ids.empty()) return;
  std::string packed;
  for (const uint64_t id : ids) AppendVarint(id, packed);
  AppendBytesField(number, packed, out);
}

void AppendOperands(int number, const ChakraOperands& operands, std::string& out) {
  if (operands == ChakraOperands{}) return;
  std::string message;
  AppendBytesField(1, operands.values, message);
  AppendBytesField(2, operands.shapes, message);
  AppendBytesField(3, operands.types, message);
  AppendBytesField(number, message, out);
}

std::string NodeMessage(const ChakraNode& node) {
  std::string message;
  AppendVarintField(1, node.id, message);
  AppendBytesField(2, node.name, message);
  AppendVarintField(3, static_cast<uint64_t>(node.type), message);
  AppendIds(4, node.control_deps, message);
  AppendIds(5, node.data_deps, message);
  if (node.start_us > 0) AppendVarintField(6, node.start_us, message);
  if (node.micros > 0) AppendVarintField(7, node.micros, message);
  AppendOperands(8, node.inputs, message);
  AppendOperands(9, node.outputs, message);
  for (const ChakraAttribute& attribute : node.attributes) {
    AppendBytesField(10, AttributeMessage(attribute), message);
  }
  return message;
}

void AppendMessage(absl::string_view message, std::string& out) {
  AppendVarint(message.size(), out);
  out.append(message.data(), message.size());
}

}  // namespace

std::optional<int64_t> ChakraNode::Integer(absl::string_view attribute) const {
  for (const ChakraAttribute& one : attributes) {
    if (one.name != attribute) continue;
    if (const auto* integer = std::get_if<int64_t>(&one.value)) return *integer;
    if (const auto* truth = std::get_if<bool>(&one.value)) return *truth ? 1 : 0;
  }
  return std::nullopt;
}

absl::StatusOr<ChakraTrace> ReadChakra(absl::string_view text) {
  ChakraTrace trace;
  WireReader reader(text);
  absl::flat_hash_set<uint64_t> ids;
  if (text.empty()) return absl::InvalidArgumentError("is empty");
  for (size_t index = 0; !reader.done(); ++index) {
    const std::string where = absl::StrCat("message ", index, " before byte ", reader.at());
    EBB_ASSIGN_OR_RETURN(const absl::string_view message, reader.Delimited());
    if (index == 0) {
      const absl::Status status = ReadMetadata(message, trace);
      if (!status.ok()) return Annotate(status, where);
      continue;
    }
    auto node = ReadNode(message);
    if (!node.ok()) return Annotate(node.status(), where);
    if (!ids.insert(node->id).second) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": a second node ", node->id));
    }
    trace.nodes.push_back(*std::move(node));
  }
  return trace;
}

std::string WriteChakra(const ChakraTrace& trace) {
  std::string metadata;
  if (!trace.version.empty()) AppendBytesField(1, trace.version, metadata);
  for (const ChakraAttribute& attribute : trace.attributes) {
    AppendBytesField(2, AttributeMessage(attribute), metadata);
  }
  std::string out;
  AppendMessage(metadata, out);
  for (const ChakraNode& node : trace.nodes) AppendMessage(NodeMessage(node), out);
  return out;
}

}  // namespace ebb::perfmodel
