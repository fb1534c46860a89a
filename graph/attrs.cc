#include "graph/attrs.h"

#include <charconv>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"

namespace ebb::graph {
namespace {

const absl::flat_hash_map<absl::string_view, AttrKind>& Kinds() {
  using enum AttrKind;
  static const auto* const kinds = new absl::flat_hash_map<absl::string_view, AttrKind>{
      {"alpha", kFloat},
      {"approximate", kStr},
      {"axes", kInts},
      {"axis", kInt},
      {"batch_dims", kInt},
      {"beta", kFloat},
      {"beta1", kFloat},
      {"beta2", kFloat},
      {"bias", kFloat},
      {"centered", kInt},
      {"counted_pads", kInts},
      {"dampening", kFloat},
      {"decoupled", kInt},
      {"dilations", kInts},
      {"ema_decay", kFloat},
      {"ends", kInts},
      {"epsilon", kFloat},
      {"exclusive", kInt},
      {"fmod", kInt},
      {"gates", kStr},
      {"groups", kInt},
      {"ignore_index", kInt},
      {"include_last_offset", kInt},
      {"input_shape", kInts},
      {"k", kInt},
      {"keepdims", kInt},
      {"kernel", kInts},
      {"label_smoothing", kFloat},
      {"largest", kInt},
      {"last", kInt},
      {"linear_before_reset", kInt},
      {"log_prob", kInt},
      {"lr_decay", kFloat},
      {"lr_scale", kFloat},
      {"max", kFloat},
      {"max_norm", kFloat},
      {"min", kFloat},
      {"mode", kStr},
      {"momentum", kFloat},
      {"nesterov", kInt},
      {"pads", kInts},
      {"perm", kInts},
      {"ratio", kFloat},
      {"reduction", kStr},
      {"reverse", kInt},
      {"scale", kFloat},
      {"shape", kInts},
      {"shift", kFloat},
      {"size", kInt},
      {"sparse", kInt},
      {"starts", kInts},
      {"steps", kInts},
      {"stream", kInt},
      {"strides", kInts},
      {"to", kStr},
      {"tf32", kInt},
      {"trans_a", kInt},
      {"trans_b", kInt},
      {"value", kFloat},
      {"weight_decay", kFloat},
      {"weight_shape", kInts},
      {"zero_masked", kInt},
  };
  return *kinds;
}

absl::string_view Name(AttrKind kind) {
  switch (kind) {
    case AttrKind::kInt:
      return "an int";
    case AttrKind::kFloat:
      return "a float";
    case AttrKind::kInts:
      return "ints";
    case AttrKind::kStr:
      return "a string";
  }
  return "?";
}

// The shortest text that reads back as the same double, and never as an int.
std::string FloatToString(double value) {
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, result.ptr);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string ToString(const AttrValue& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return absl::StrCat(*i);
  if (const auto* f = std::get_if<double>(&value)) return FloatToString(*f);
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
    return absl::StrCat("[", absl::StrJoin(*ints, ","), "]");
  }
  return absl::StrCat("\"", std::get<std::string>(value), "\"");
}

template <class T>
const T* Get(const std::map<std::string, AttrValue, std::less<>>& map, absl::string_view name) {
  const auto it = map.find(name);
  if (it == map.end()) return nullptr;
  const T* value = std::get_if<T>(&it->second);
  EBB_CHECK(value != nullptr);
  return value;
}

}  // namespace

int64_t Attrs::Int(absl::string_view name, int64_t fallback) const {
  const auto* value = Get<int64_t>(map_, name);
  return value ? *value : fallback;
}

double Attrs::Float(absl::string_view name, double fallback) const {
  const auto it = map_.find(name);
  if (it == map_.end()) return fallback;
  if (const auto* i = std::get_if<int64_t>(&it->second)) return static_cast<double>(*i);
  return *Get<double>(map_, name);
}

std::vector<int64_t> Attrs::Ints(absl::string_view name, std::vector<int64_t> fallback) const {
  if (const auto* value = Get<std::vector<int64_t>>(map_, name)) return *value;
  return fallback;
}

std::string Attrs::Str(absl::string_view name, std::string fallback) const {
  if (const auto* value = Get<std::string>(map_, name)) return *value;
  return fallback;
}

void Attrs::Erase(absl::string_view name) {
  if (const auto it = map_.find(name); it != map_.end()) map_.erase(it);
}

std::optional<AttrKind> AttrKindOf(absl::string_view name) {
  const auto it = Kinds().find(name);
  if (it == Kinds().end()) return std::nullopt;
  return it->second;
}

absl::Status CheckKinds(const Attrs& attrs) {
  for (const auto& [name, value] : attrs.map()) {
    const std::optional<AttrKind> wanted = AttrKindOf(name);
    if (!wanted) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown attribute '", name, "' (graph/attrs.cc lists the known ones)"));
    }
    const auto actual = static_cast<AttrKind>(value.index());
    const bool int_as_float = *wanted == AttrKind::kFloat && actual == AttrKind::kInt;
    if (actual != *wanted && !int_as_float) {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute '", name, "' must be ", Name(*wanted), ", it is ", Name(actual)));
    }
  }
  return absl::OkStatus();
}

std::string ToString(const Attrs& attrs) {
  return absl::StrCat("{",
                      absl::StrJoin(attrs.map(), ", ",
                                    [](std::string* out, const auto& item) {
                                      absl::StrAppend(out, item.first, "=", ToString(item.second));
                                    }),
                      "}");
}

}  // namespace ebb::graph
