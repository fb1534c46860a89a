#include "client/yaml_short.h"

#include <google/protobuf/duration.pb.h>

#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/units.h"
#include "ebb/v1/job.pb.h"
#include "proto/names.h"

namespace ebb::client {
namespace {

bool ReadBatchSize(absl::string_view text, v1::BatchSize* batch) {
  if (text == "auto") {
    batch->mutable_auto_();
    return true;
  }
  const auto rows = ParseInteger(text);
  if (rows) batch->set_fixed(*rows);
  return rows.has_value();
}

bool ReadMetric(absl::string_view text, v1::Metric* metric) {
  absl::string_view output = text;
  if (absl::ConsumePrefix(&output, "output:")) {
    metric->set_kind(v1::Metric::KIND_OUTPUT);
    metric->set_output(std::string(output));
    return true;
  }
  absl::string_view digits = text;
  if (absl::ConsumePrefix(&digits, "top")) {
    absl::ConsumePrefix(&digits, "_");
    const auto k = ParseInteger(digits);
    if (!k) return false;
    metric->set_kind(v1::Metric::KIND_TOP_K);
    metric->set_k(*k);
    return true;
  }
  const auto* value = proto::FindShortName(*v1::Metric::Kind_descriptor(), text);
  if (value == nullptr || value->number() == v1::Metric::KIND_UNSPECIFIED) return false;
  metric->set_kind(static_cast<v1::Metric::Kind>(value->number()));
  return true;
}

bool ReadEvery(absl::string_view text, v1::Every* every) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ', absl::SkipWhitespace());
  if (words.size() != 2) return false;
  const auto count = ParseInteger(words[0]);
  if (!count) return false;
  if (words[1] == "epoch" || words[1] == "epochs") {
    every->set_epochs(*count);
  } else if (words[1] == "step" || words[1] == "steps") {
    every->set_steps(*count);
  } else {
    return false;
  }
  return true;
}

bool ReadSeed(absl::string_view text, v1::Seed* seed) {
  const auto value = ParseUnsigned(text);
  if (!value) return false;
  seed->set_init(*value);
  seed->set_data(*value);
  seed->set_dropout(*value);
  return true;
}

bool ReadDuration(absl::string_view text, google::protobuf::Duration* duration) {
  absl::Duration value;
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    value = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &value)) {
    return false;
  }
  if (value < absl::ZeroDuration() || value > absl::Hours(24 * 365 * 100)) return false;
  const int64_t nanos = absl::ToInt64Nanoseconds(value);
  duration->set_seconds(nanos / 1000000000);
  duration->set_nanos(static_cast<int32_t>(nanos % 1000000000));
  return true;
}

template <class T>
ShortForm Form(bool (*read)(absl::string_view, T*), absl::string_view text,
               google::protobuf::Message* message, absl::string_view should, std::string* what) {
  if (read(text, static_cast<T*>(message))) return ShortForm::kRead;
  *what = absl::StrCat("'", text, "' is not ", should);
  return ShortForm::kBad;
}

struct NamedInteger {
  absl::string_view field;
  absl::string_view name;
  int64_t value;
};
constexpr NamedInteger kNamedIntegers[] = {
    {"ebb.v1.Resources.priority", "low", -10},
    {"ebb.v1.Resources.priority", "normal", 0},
    {"ebb.v1.Resources.priority", "high", 10},
    {"ebb.v1.DataSource.label_column", "last", -1},
};
constexpr absl::string_view kByteFields[] = {"ebb.v1.Resources.memory_max"};

bool IsByteField(const google::protobuf::FieldDescriptor& field) {
  for (absl::string_view name : kByteFields) {
    if (name == field.full_name()) return true;
  }
  return false;
}

}  // namespace

ShortForm ReadShortForm(absl::string_view text, google::protobuf::Message* message,
                        std::string* what) {
  const auto* type = message->GetDescriptor();
  if (type == v1::BatchSize::descriptor()) {
    return Form(ReadBatchSize, text, message, "a number of rows or auto", what);
  }
  if (type == v1::Metric::descriptor()) {
    return Form(ReadMetric, text, message,
                "a metric: loss, accuracy, top5, mse, macro_f1, perplexity, auc, logloss, "
                "output:NAME",
                what);
  }
  if (type == v1::Every::descriptor()) {
    return Form(ReadEvery, text, message, "of the form '1 epoch' or '100 steps'", what);
  }
  if (type == v1::Seed::descriptor()) {
    return Form(ReadSeed, text, message, "a number, nor {init, data, dropout}", what);
  }
  if (type == google::protobuf::Duration::descriptor()) {
    return Form(ReadDuration, text, message, "a time such as 2h, 90m or 1h30m", what);
  }
  if (type == v1::Loss::descriptor() && absl::ConsumePrefix(&text, "output:")) {
    static_cast<v1::Loss*>(message)->set_output(std::string(text));
    return ShortForm::kRead;
  }
  return ShortForm::kNone;
}

std::optional<int64_t> ParseInteger(absl::string_view text) {
  int64_t value = 0;
  if (absl::SimpleAtoi(text, &value)) return value;
  double real = 0;
  if (!absl::SimpleAtod(text, &real) || std::abs(real) > 9e15 || real != std::floor(real)) {
    return std::nullopt;
  }
  return static_cast<int64_t>(real);
}

std::optional<uint64_t> ParseUnsigned(absl::string_view text) {
  uint64_t value = 0;
  if (absl::SimpleAtoi(text, &value)) return value;
  const auto integer = ParseInteger(text);
  if (!integer || *integer < 0) return std::nullopt;
  return static_cast<uint64_t>(*integer);
}

std::optional<int64_t> ParseNamedInteger(absl::string_view text,
                                         const google::protobuf::FieldDescriptor& field) {
  for (const NamedInteger& row : kNamedIntegers) {
    if (row.field == field.full_name() && row.name == text) return row.value;
  }
  if (IsByteField(field)) {
    if (const auto bytes = ParseBytes(text)) return bytes->count();
  }
  return std::nullopt;
}

std::string NamedIntegers(const google::protobuf::FieldDescriptor& field) {
  if (IsByteField(field)) return " or a size such as 12GiB";
  std::string names;
  for (const NamedInteger& row : kNamedIntegers) {
    if (row.field == field.full_name()) {
      absl::StrAppend(&names, names.empty() ? " or " : ", ", row.name);
    }
  }
  return names;
}

}  // namespace ebb::client
