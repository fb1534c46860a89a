#include "client/yaml.h"

#include <google/protobuf/message.h>
#include <yaml-cpp/yaml.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"
#include "base/units.h"
#include "base/yaml.h"
#include "client/yaml_reader.h"

namespace ebb::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr Bytes kMaxText = MiB(4);

absl::Status Invalid(absl::string_view message) { return absl::InvalidArgumentError(message); }

// The parser's exceptions, with the place.
template <class F>
absl::Status CatchYaml(absl::string_view source, F read) {
  try {
    return read();
  } catch (const YAML::Exception& error) {
    const std::string place =
        error.mark.is_null() ? ""
                             : absl::StrCat(":", error.mark.line + 1, ":", error.mark.column + 1);
    return Invalid(absl::StrCat(source, place, ": ", error.msg));
  }
}

// Sets the field that `path[at...]` leads to below `message`.
absl::Status Assign(const std::vector<std::string>& path, size_t at, const YAML::Node& value,
                    YamlReader* reader, Message* message) {
  const auto* reflection = message->GetReflection();
  const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(path[at]);
  if (field == nullptr) {
    return Invalid(UnknownField(path[at], *message->GetDescriptor()));
  }
  const bool last = at + 1 == path.size();
  if (field->is_map() && !last) {
    // What follows is the key, dots and all: "labels.a.b=c" has the key "a.b".
    std::string key = path[at + 1];
    for (size_t i = at + 2; i < path.size(); ++i) absl::StrAppend(&key, ".", path[i]);
    YAML::Node entry;
    entry[key] = value;
    return reader->ReadField(entry, path[at], field, message);
  }
  if (last) {
    reflection->ClearField(message, field);  // the new value replaces the old one as a whole
    return reader->ReadField(value, path[at], field, message);
  }
  if (field->message_type() == nullptr) {
    return Invalid(absl::StrCat("'", path[at], "' has no fields"));
  }
  if (!field->is_repeated()) {
    return Assign(path, at + 1, value, reader, reflection->MutableMessage(message, field));
  }
  int index = -1;
  if (!absl::SimpleAtoi(path[at + 1], &index) || index < 0 ||
      index >= reflection->FieldSize(*message, field)) {
    return Invalid(absl::StrCat("'", path[at], "' is a list of ",
                                reflection->FieldSize(*message, field), "; '", path[at + 1],
                                "' is no index of it"));
  }
  Message* item = reflection->MutableRepeatedMessage(message, field, index);
  if (at + 2 == path.size()) {
    item->Clear();
    return reader->ReadMessage(value, absl::StrCat(path[at], "[", index, "]"), item);
  }
  return Assign(path, at + 2, value, reader, item);
}

// YAML may be UTF-16 or UTF-32 too: those have zero bytes, which text in UTF-8 has not.
absl::Status CheckEncoding(absl::string_view text, absl::string_view source) {
  if (IsUtf8(text) || text.find('\0') != absl::string_view::npos) return absl::OkStatus();
  int line = 1;
  for (absl::string_view rest : absl::StrSplit(text, '\n')) {
    if (!IsUtf8(rest)) break;
    ++line;
  }
  return Invalid(
      absl::StrCat(source, ":", line, ": this line is not UTF-8; save the file as UTF-8"));
}

// The one document of `text`, a mapping; `what` says of what kind.
absl::Status ReadText(absl::string_view text, absl::string_view source, absl::string_view what,
                      Message* message) {
  if (static_cast<int64_t>(text.size()) > kMaxText.count()) {
    return Invalid(
        absl::StrCat(source, ": the file is too large; at most ", FormatBytes(kMaxText)));
  }
  EBB_RETURN_IF_ERROR(CheckEncoding(text, source));
  return CatchYaml(source, [&]() -> absl::Status {
    const YamlText yaml = LoadYaml(std::string(text));
    if (yaml.has_more) {
      return Invalid(absl::StrCat(source, ": it holds more than one document (---)"));
    }
    YamlReader reader(source);
    if (!yaml.document.IsMap()) return Invalid(absl::StrCat(source, ":1:1: ", what));
    return reader.ReadMessage(yaml.document, "", message);
  });
}

}  // namespace

absl::StatusOr<v1::JobSpec> ParseSpec(absl::string_view text, absl::string_view source) {
  v1::JobSpec spec;
  EBB_RETURN_IF_ERROR(
      ReadText(text, source, "a job file is a mapping: name, model, data, ...", &spec));
  return spec;
}

absl::StatusOr<v1::ShardEmbeddingsRequest> ParseTables(absl::string_view text,
                                                       absl::string_view source) {
  v1::ShardEmbeddingsRequest request;
  EBB_RETURN_IF_ERROR(
      ReadText(text, source, "a file of tables is a mapping: tables, batch_size, ...", &request));
  return request;
}

absl::Status ApplyOverride(absl::string_view assignment, v1::JobSpec* spec) {
  const std::string source = absl::StrCat("--set ", assignment);
  const size_t equals = assignment.find('=');
  if (equals == absl::string_view::npos || equals == 0) {
    return Invalid(absl::StrCat(source, ": it is not of the form key.path=value"));
  }
  const std::vector<std::string> path = absl::StrSplit(assignment.substr(0, equals), '.');
  if (path.size() > 32) return Invalid(absl::StrCat(source, ": nested too deeply"));
  return CatchYaml(source, [&]() -> absl::Status {
    const YAML::Node value = YAML::Load(std::string(assignment.substr(equals + 1)));
    YamlReader reader(source);
    const absl::Status status = Assign(path, 0, value, &reader, spec);
    if (status.ok() || absl::StrContains(status.message(), source)) return status;
    return Annotate(status, source);
  });
}

}  // namespace ebb::client
