#include "client/yaml_reader.h"

#include <cmath>
#include <limits>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/yaml_short.h"
#include "ebb/v1/job.pb.h"
#include "proto/names.h"

namespace ebb::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr int kMaxDepth = 64;
constexpr int kMaxNodes = 100000;

std::string Join(const std::string& path, absl::string_view name) {
  return path.empty() ? std::string(name) : absl::StrCat(path, ".", name);
}

// What is too long to be repeated in a message is cut.
std::string Quote(absl::string_view text) {
  return text.size() > 60 ? absl::StrCat("'", text.substr(0, 60), "...'")
                          : absl::StrCat("'", text, "'");
}

std::string Names(const google::protobuf::EnumDescriptor& type) {
  std::string names;
  for (int i = 1; i < type.value_count(); ++i) {
    absl::StrAppend(&names, i > 1 ? ", " : "", proto::ShortName(*type.value(i)));
  }
  return names;
}

// The fields of oneofs that a single word can choose: those that are messages.
std::vector<std::string> Words(const Descriptor& type) {
  std::vector<std::string> words;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    if (field->real_containing_oneof() != nullptr && field->message_type() != nullptr) {
      words.push_back(field->name());
    }
  }
  return words;
}

// Calls `set` or, for a repeated field, `add`.
#define EBB_PUT(Type, value)                                           \
  (field->is_repeated() ? reflection->Add##Type(message, field, value) \
                        : reflection->Set##Type(message, field, value))

}  // namespace

std::string UnknownField(absl::string_view name, const Descriptor& message) {
  std::vector<std::string> fields;
  std::string all;
  for (int i = 0; i < message.field_count(); ++i) {
    fields.push_back(message.field(i)->name());
    absl::StrAppend(&all, i > 0 ? ", " : "", message.field(i)->name());
  }
  const std::string nearest = proto::Nearest(name, fields);
  if (!nearest.empty()) {
    return absl::StrCat("unknown field ", Quote(name), "; did you mean '", nearest, "'?");
  }
  return absl::StrCat("unknown field ", Quote(name), "; ",
                      all.empty() ? "nothing can be set here" : absl::StrCat("it can be: ", all));
}

absl::Status YamlReader::Error(const YAML::Node& node, const std::string& path,
                               absl::string_view what) const {
  std::string where = source_;
  if (const YAML::Mark mark = node.Mark(); !mark.is_null()) {
    absl::StrAppend(&where, ":", mark.line + 1, ":", mark.column + 1);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": ", path, path.empty() ? "" : ": ", what));
}

absl::Status YamlReader::Enter(const YAML::Node& node, const std::string& path) {
  if (depth_ >= kMaxDepth) return Error(node, path, "nested too deeply");
  if (++visited_ > kMaxNodes) return Error(node, path, "too large, with its aliases written out");
  return absl::OkStatus();
}

absl::Status YamlReader::ReadMessage(const YAML::Node& node, const std::string& path,
                                     Message* message) {
  EBB_RETURN_IF_ERROR(Enter(node, path));
  ++depth_;
  absl::Cleanup leave = [this] { --depth_; };
  switch (node.Type()) {
    case YAML::NodeType::Map:
      return ReadMapping(node, path, message);
    case YAML::NodeType::Sequence:
      return ReadSequence(node, path, message);
    case YAML::NodeType::Scalar:
      return ReadWord(node, path, message);
    default:
      // "mse:" alone chooses it; for most messages there must be something.
      if (message->GetDescriptor()->field_count() == 0 ||
          message->GetDescriptor()->containing_type() != nullptr) {
        return absl::OkStatus();
      }
      return Error(node, path, "it has no value");
  }
}

absl::Status YamlReader::ReadMapping(const YAML::Node& node, const std::string& path,
                                     Message* message) {
  const Descriptor& type = *message->GetDescriptor();
  absl::flat_hash_set<std::string> seen;
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) return Error(entry.first, path, "a key must be a name");
    const std::string& name = entry.first.Scalar();
    if (name == "<<") return Error(entry.first, path, "merge keys (<<) are not supported");
    const FieldDescriptor* field = type.FindFieldByName(name);
    if (field == nullptr) return Error(entry.first, path, UnknownField(name, type));
    if (!seen.insert(name).second) {
      return Error(entry.first, path, absl::StrCat("'", name, "' is given twice"));
    }
    if (const auto* oneof = field->real_containing_oneof()) {
      const auto* chosen = message->GetReflection()->GetOneofFieldDescriptor(*message, oneof);
      if (chosen != nullptr && chosen != field && seen.contains(chosen->name())) {
        return Error(entry.first, path,
                     absl::StrCat("'", name, "' and '", chosen->name(), "' exclude each other"));
      }
    }
    EBB_RETURN_IF_ERROR(ReadField(entry.second, Join(path, name), field, message));
  }
  return absl::OkStatus();
}

absl::Status YamlReader::ReadSequence(const YAML::Node& node, const std::string& path,
                                      Message* message) {
  const Descriptor& type = *message->GetDescriptor();
  if (type.field_count() == 1 && type.field(0)->is_repeated()) {
    return ReadField(node, path, type.field(0), message);
  }
  if (&type != v1::Schedule::Point::descriptor()) {
    return Error(node, path, "a list does not fit here; write a mapping");
  }
  // [step, lr]: the fields in their order.
  if (static_cast<int>(node.size()) != type.field_count()) {
    return Error(node, path, absl::StrCat("it needs ", type.field_count(), " numbers"));
  }
  int index = 0;
  for (const auto& item : node) {
    const FieldDescriptor* field = type.field(index++);
    EBB_RETURN_IF_ERROR(ReadField(item, Join(path, field->name()), field, message));
  }
  return absl::OkStatus();
}

absl::Status YamlReader::ReadWord(const YAML::Node& node, const std::string& path,
                                  Message* message) {
  const std::string& text = node.Scalar();
  std::string what;
  switch (ReadShortForm(text, message, &what)) {
    case ShortForm::kRead:
      return absl::OkStatus();
    case ShortForm::kBad:
      return Error(node, path, what);
    case ShortForm::kNone:
      break;
  }
  const Descriptor& type = *message->GetDescriptor();
  const FieldDescriptor* field = type.FindFieldByName(text);
  const std::vector<std::string> words = Words(type);
  if (field != nullptr && field->real_containing_oneof() != nullptr &&
      field->message_type() != nullptr) {
    message->GetReflection()->MutableMessage(message, field);
    return absl::OkStatus();
  }
  if (words.empty())
    return Error(node, path, absl::StrCat(Quote(text), " does not fit here; write a mapping"));
  std::string all;
  for (const std::string& word : words) absl::StrAppend(&all, all.empty() ? "" : ", ", word);
  const std::string nearest = proto::Nearest(text, words);
  return Error(node, path,
               nearest.empty()
                   ? absl::StrCat(Quote(text), " is not one of ", all)
                   : absl::StrCat(Quote(text), " is not known; did you mean '", nearest, "'?"));
}

absl::Status YamlReader::ReadMap(const YAML::Node& node, const std::string& path,
                                 const FieldDescriptor* field, Message* message) {
  if (!node.IsMap()) return Error(node, path, "it must be a mapping");
  const auto* reflection = message->GetReflection();
  absl::flat_hash_set<std::string> seen;
  for (const auto& entry : node) {
    EBB_RETURN_IF_ERROR(Enter(entry.second, path));
    if (!entry.first.IsScalar()) return Error(entry.first, path, "a key must be a name");
    const std::string& key = entry.first.Scalar();
    if (!seen.insert(key).second) {
      return Error(entry.first, path, absl::StrCat(Quote(key), " is given twice"));
    }
    if (!entry.second.IsScalar()) return Error(entry.second, Join(path, key), "it must be a text");
    // On the wire a map is a list of entries, of which the last one of a key counts.
    Message* item = reflection->AddMessage(message, field);
    item->GetReflection()->SetString(item, field->message_type()->map_key(), key);
    item->GetReflection()->SetString(item, field->message_type()->map_value(),
                                     entry.second.Scalar());
  }
  return absl::OkStatus();
}

absl::Status YamlReader::ReadField(const YAML::Node& node, const std::string& path,
                                   const FieldDescriptor* field, Message* message) {
  if (field->is_map()) return ReadMap(node, path, field, message);
  if (!field->is_repeated()) return ReadItem(node, path, field, message);
  // model.reinit: {"fc.*": zeros}, or one scheme for all parameters.
  if (field->message_type() == v1::Model::Reinit::descriptor() && !node.IsSequence()) {
    auto* model = static_cast<v1::Model*>(message);
    if (node.IsScalar()) {
      v1::Model::Reinit& rule = *model->add_reinit();
      rule.set_match("*");
      rule.set_init(node.Scalar() == "all" ? "default" : node.Scalar());
      return absl::OkStatus();
    }
    if (!node.IsMap()) return Error(node, path, "it must be a mapping from pattern to scheme");
    for (const auto& entry : node) {
      EBB_RETURN_IF_ERROR(Enter(entry.second, path));
      if (!entry.first.IsScalar() || !entry.second.IsScalar()) {
        return Error(entry.first, path, "it must be a mapping from pattern to scheme");
      }
      v1::Model::Reinit& rule = *model->add_reinit();
      rule.set_match(entry.first.Scalar());
      rule.set_init(entry.second.Scalar());
    }
    return absl::OkStatus();
  }
  if (node.IsScalar()) return ReadItem(node, absl::StrCat(path, "[0]"), field, message);
  if (!node.IsSequence()) return Error(node, path, "it must be a list");
  int index = 0;
  for (const auto& item : node) {
    EBB_RETURN_IF_ERROR(ReadItem(item, absl::StrCat(path, "[", index++, "]"), field, message));
  }
  return absl::OkStatus();
}

absl::Status YamlReader::ReadItem(const YAML::Node& node, const std::string& path,
                                  const FieldDescriptor* field, Message* message) {
  const auto* reflection = message->GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return ReadMessage(node, path,
                       field->is_repeated() ? reflection->AddMessage(message, field)
                                            : reflection->MutableMessage(message, field));
  }
  EBB_RETURN_IF_ERROR(Enter(node, path));
  if (node.IsNull()) return Error(node, path, "it has no value");
  if (!node.IsScalar()) return Error(node, path, "it must be a single value");
  const std::string& text = node.Scalar();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      EBB_PUT(String, text);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_BOOL: {
      bool value = false;
      if (!YAML::convert<bool>::decode(node, value)) {
        return Error(node, path, absl::StrCat(Quote(text), " is neither true nor false"));
      }
      EBB_PUT(Bool, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double value = 0;
      if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) {
        return Error(node, path, absl::StrCat(Quote(text), " is not a number"));
      }
      EBB_PUT(Double, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      const auto value = ParseUnsigned(text);
      if (!value)
        return Error(node, path, absl::StrCat(Quote(text), " is not an integer from 0 on"));
      EBB_PUT(UInt64, *value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_INT32: {
      auto value = ParseInteger(text);
      if (!value) value = ParseNamedInteger(text, *field);
      const bool narrow = field->cpp_type() == FieldDescriptor::CPPTYPE_INT32;
      if (!value || (narrow && (*value < std::numeric_limits<int32_t>::min() ||
                                *value > std::numeric_limits<int32_t>::max()))) {
        return Error(node, path,
                     absl::StrCat(Quote(text), " is not an integer", NamedIntegers(*field)));
      }
      if (narrow) {
        EBB_PUT(Int32, static_cast<int32_t>(*value));
      } else {
        EBB_PUT(Int64, *value);
      }
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_ENUM:
      return ReadEnum(node, path, field, message);
    default:
      return Error(node, path, "a field of this type cannot be written in YAML");
  }
}

absl::Status YamlReader::ReadEnum(const YAML::Node& node, const std::string& path,
                                  const FieldDescriptor* field, Message* message) {
  const auto* reflection = message->GetReflection();
  const auto* value = proto::FindShortName(*field->enum_type(), node.Scalar());
  if (value == nullptr || value->number() == 0) {
    return Error(node, path,
                 absl::StrCat(Quote(node.Scalar()), " is not one of ", Names(*field->enum_type())));
  }
  EBB_PUT(Enum, value);
  return absl::OkStatus();
}

#undef EBB_PUT

}  // namespace ebb::client
