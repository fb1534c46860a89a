#include "client/json.h"

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/time/time.h"
#include "proto/names.h"

namespace ebb::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Json = nlohmann::ordered_json;

Json FromMessage(const Message& message);

// Item `index` of a repeated field, or (index < 0) a singular one.
Json FromItem(const Message& message, const FieldDescriptor* field, int index) {
  const auto* reflection = message.GetReflection();
#define EBB_GET(Type)                                \
  (index < 0 ? reflection->Get##Type(message, field) \
             : reflection->GetRepeated##Type(message, field, index))
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return EBB_GET(Int32);
    case FieldDescriptor::CPPTYPE_INT64:
      return EBB_GET(Int64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return EBB_GET(UInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return EBB_GET(UInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return EBB_GET(Double);  // not a number becomes null: JSON has none
    case FieldDescriptor::CPPTYPE_FLOAT:
      return EBB_GET(Float);
    case FieldDescriptor::CPPTYPE_BOOL:
      return EBB_GET(Bool);
    case FieldDescriptor::CPPTYPE_ENUM:
      return proto::ShortName(*field->enum_type(), EBB_GET(EnumValue));
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text = EBB_GET(String);
      return field->type() == FieldDescriptor::TYPE_BYTES ? absl::Base64Escape(text) : text;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return FromMessage(EBB_GET(Message));
  }
#undef EBB_GET
  return nullptr;
}

Json FromMap(const Message& message, const FieldDescriptor* field) {
  const auto* reflection = message.GetReflection();
  std::map<std::string, Json> sorted;
  for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
    const Message& entry = reflection->GetRepeatedMessage(message, field, i);
    const Json key = FromItem(entry, field->message_type()->map_key(), -1);
    sorted[key.is_string() ? key.get<std::string>() : key.dump()] =
        FromItem(entry, field->message_type()->map_value(), -1);
  }
  Json object = Json::object();
  for (auto& [key, value] : sorted) object[key] = std::move(value);
  return object;
}

Json FromMessage(const Message& message) {
  const auto* reflection = message.GetReflection();
  const auto* type = message.GetDescriptor();
  if (type == google::protobuf::Timestamp::descriptor()) {
    const auto& time = static_cast<const google::protobuf::Timestamp&>(message);
    return absl::FormatTime(absl::RFC3339_full,
                            absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos()),
                            absl::UTCTimeZone());
  }
  if (type == google::protobuf::Duration::descriptor()) {
    const auto& duration = static_cast<const google::protobuf::Duration&>(message);
    return static_cast<double>(duration.seconds()) + duration.nanos() * 1e-9;
  }
  Json object = Json::object();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    if (field->is_map()) {
      object[field->name()] = FromMap(message, field);
    } else if (field->is_repeated()) {
      Json list = Json::array();
      for (int j = 0; j < reflection->FieldSize(message, field); ++j) {
        list.push_back(FromItem(message, field, j));
      }
      object[field->name()] = std::move(list);
    } else if (!field->has_presence() || reflection->HasField(message, field)) {
      object[field->name()] = FromItem(message, field, -1);
    } else if (field->real_containing_oneof() == nullptr) {
      object[field->name()] = nullptr;
    }
  }
  return object;
}

}  // namespace

std::string ToJson(const Message& message, JsonStyle style) {
  return FromMessage(message).dump(style == JsonStyle::kIndented ? 2 : -1, ' ', false,
                                   Json::error_handler_t::replace);
}

}  // namespace ebb::client
