// A node's attributes: a small sorted map from name to int, float, ints or string. docs/ops.md
// lists which attributes each op has. Kernels read them once, when a program is compiled.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ebb::graph {

using AttrValue = std::variant<int64_t, double, std::vector<int64_t>, std::string>;

class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<const std::string, AttrValue>> items) : map_(items) {}

  bool Has(absl::string_view name) const { return map_.find(name) != map_.end(); }
  // The attribute, or `fallback` when it is absent. A wrong type is a broken invariant (CHECK):
  // Verify() and the importers reject it first.
  int64_t Int(absl::string_view name, int64_t fallback) const;
  // An int attribute is a float too.
  double Float(absl::string_view name, double fallback) const;
  std::vector<int64_t> Ints(absl::string_view name, std::vector<int64_t> fallback = {}) const;
  std::string Str(absl::string_view name, std::string fallback = "") const;

  void Set(std::string name, AttrValue value) { map_.insert_or_assign(std::move(name), value); }
  void Erase(absl::string_view name);
  const std::map<std::string, AttrValue, std::less<>>& map() const { return map_; }
  bool operator==(const Attrs&) const = default;

 private:
  std::map<std::string, AttrValue, std::less<>> map_;
};

// The alternatives of AttrValue, in their order. An attribute's name has one kind in all ops.
enum class AttrKind : uint8_t { kInt, kFloat, kInts, kStr };
std::optional<AttrKind> AttrKindOf(absl::string_view name);  // nullopt: no op has such an attribute

// InvalidArgument names an unknown attribute or one of the wrong kind.
absl::Status CheckKinds(const Attrs& attrs);

std::string ToString(const Attrs& attrs);  // "{axis=1, pads=[0,0,1,1]}"

}  // namespace ebb::graph
