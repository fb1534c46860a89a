#include "proto/text_fields.h"

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/text.h"

namespace ebb::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

absl::Status Walk(const Message& message, absl::string_view path) {
  const auto& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string name = absl::StrCat(path, path.empty() ? "" : ".", field->name());
    const bool repeated = field->is_repeated();
    const int count = repeated ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      absl::Status status;
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        status = Walk(repeated ? reflection.GetRepeatedMessage(message, field, i)
                               : reflection.GetMessage(message, field),
                      name);
      } else if (field->type() == FieldDescriptor::TYPE_STRING) {
        std::string scratch;
        const std::string& text =
            repeated ? reflection.GetRepeatedStringReference(message, field, i, &scratch)
                     : reflection.GetStringReference(message, field, &scratch);
        if (!IsUtf8(text)) {
          status = absl::InvalidArgumentError(
              absl::StrCat(name, ": '", Escaped(text), "' is not UTF-8"));
        }
      }
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckUtf8(const Message& message) { return Walk(message, ""); }

}  // namespace ebb::proto
