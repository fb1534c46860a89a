#include "perfmodel/formats/json_records.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"

namespace ebb::perfmodel {
namespace {

using nlohmann::json;

// Builds one value at a time: an element of the array, or another field of the outermost object.
class Reader : public nlohmann::json_sax<json> {
 public:
  Reader(absl::string_view array, const JsonHandlers& handlers, const JsonLimits& limits)
      : array_(array), handlers_(handlers), limits_(limits) {}

  absl::Status status() const {
    if (!status_.ok()) return status_;
    if (!found_) {
      return absl::InvalidArgumentError(array_.empty() ? std::string("is not an array")
                                                       : absl::StrCat("has no array ", array_));
    }
    return absl::OkStatus();
  }

  bool null() override { return Value(nullptr); }
  bool boolean(bool value) override { return Value(value); }
  bool number_integer(int64_t value) override { return Value(value); }
  bool number_unsigned(uint64_t value) override { return Value(value); }
  bool number_float(double value, const std::string&) override { return Value(value); }
  bool string(std::string& value) override { return Value(std::move(value)); }
  bool binary(json::binary_t&) override { return Refuse("binary data"); }
  bool key(std::string& value) override {
    if (open_.empty()) {
      field_ = value;
    } else {
      key_ = value;
    }
    return true;
  }
  bool start_object(std::size_t) override { return Open(json::object()); }
  bool start_array(std::size_t) override { return Open(json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    if (status_.ok()) {
      status_ = absl::InvalidArgumentError(
          absl::StrFormat("byte %d: is no JSON: %s", position, error.what()));
    }
    return false;
  }

 private:
  enum class Outer : uint8_t { kNone, kObject, kRecords };

  bool Refuse(absl::string_view what) {
    const std::string where =
        outer_ == Outer::kRecords ? absl::StrCat("record ", count_, ": ") : "";
    if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat(where, what));
    return false;
  }

  bool Open(json empty) {
    const bool is_array = empty.is_array();
    if (outer_ == Outer::kNone) {
      if (is_array != array_.empty()) {
        return Refuse(is_array ? "is an array, not an object" : "is an object, not an array");
      }
      outer_ = is_array ? Outer::kRecords : Outer::kObject;
      found_ = is_array;
      return true;
    }
    if (outer_ == Outer::kObject && open_.empty() && is_array && field_ == array_) {
      if (found_) return Refuse(absl::StrCat("has two arrays ", array_));
      outer_ = Outer::kRecords;
      found_ = true;
      return true;
    }
    if (open_.size() + 2 >= limits_.depth) {
      return Refuse(absl::StrFormat("is nested deeper than %d", limits_.depth));
    }
    json* const place = Place(std::move(empty));
    if (place == nullptr) return false;
    open_.push_back(place);
    return true;
  }

  bool Close() {
    if (open_.empty()) {
      // Of the records, or of the outermost object.
      if (outer_ == Outer::kRecords && !array_.empty()) outer_ = Outer::kObject;
      return true;
    }
    open_.pop_back();
    return open_.empty() ? Complete() : true;
  }

  bool Value(json value) {
    if (outer_ == Outer::kNone) return Refuse("is a single value");
    if (Place(std::move(value)) == nullptr) return false;
    return open_.empty() ? Complete() : true;
  }

  // Where the next value goes. Pointers to open values stay: only the innermost grows.
  json* Place(json value) {
    if (++values_ > limits_.values) {
      Refuse(absl::StrFormat("has more than %d values", limits_.values));
      return nullptr;
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }

  bool Complete() {
    values_ = 0;
    if (outer_ == Outer::kObject) {
      if (field_ == array_) return Refuse(absl::StrCat(array_, " is no array"));
      if (handlers_.field) handlers_.field(field_, root_);
      return true;
    }
    if (!root_.is_object()) return Refuse("is no object");
    if (count_ >= limits_.records) {
      return Refuse(absl::StrFormat("there are more than %d", limits_.records));
    }
    if (const absl::Status status = handlers_.record(root_, count_); !status.ok()) {
      return Refuse(status.message());
    }
    ++count_;
    return true;
  }

  absl::string_view array_;
  const JsonHandlers& handlers_;
  const JsonLimits& limits_;
  absl::Status status_;
  Outer outer_ = Outer::kNone;
  bool found_ = false;
  std::string field_;  // of the outermost object
  std::string key_;    // of the innermost open object
  json root_;
  std::vector<json*> open_;
  size_t count_ = 0;
  size_t values_ = 0;
};

}  // namespace

absl::Status ReadJsonRecords(absl::string_view text, absl::string_view array,
                             const JsonHandlers& handlers, const JsonLimits& limits) {
  Reader reader(array, handlers, limits);
  json::sax_parse(text.begin(), text.end(), &reader);
  return reader.status();
}

const json& FieldIn(const json& object, const char* key) {
  static const json* const none = new json();
  const auto it = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && it != object.end() ? *it : *none;
}

std::optional<double> NumberIn(const json& object, const char* key) {
  const json& value = FieldIn(object, key);
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  if (!std::isfinite(number)) return std::nullopt;
  return number;
}

std::optional<int64_t> IntegerIn(const json& object, const char* key) {
  const json& value = FieldIn(object, key);
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  return std::nullopt;
}

std::optional<std::string> StringIn(const json& object, const char* key) {
  const json& value = FieldIn(object, key);
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

std::vector<int64_t> IntegersOf(const nlohmann::json& list) {
  std::vector<int64_t> values;
  if (!list.is_array()) return values;
  for (const nlohmann::json& value : list) {
    if (value.is_number_integer()) values.push_back(value.get<int64_t>());
  }
  return values;
}

}  // namespace ebb::perfmodel
