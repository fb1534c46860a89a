#include "data/sparse.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/glob.h"
#include "base/status.h"
#include "data/decode.h"

namespace ebb::data {
namespace {

using graph::DType;
using graph::HostTensor;
using Fields = std::map<std::string, HostTensor>;

constexpr absl::string_view kIndices = ".indices";
constexpr absl::string_view kOffsets = ".offsets";
constexpr absl::string_view kWeights = ".weights";
constexpr int64_t kMostPadTo = 1 << 20;

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

bool IsIndexType(const HostTensor& tensor) {
  return tensor.type.dtype == DType::kI32 || tensor.type.dtype == DType::kI64;
}

// Where rows begin, and the end of the last.
using Bounds = std::vector<int64_t>;

std::vector<int64_t> ToI64(const HostTensor& tensor) {
  const auto copy = [](auto values) { return std::vector<int64_t>(values.begin(), values.end()); };
  return tensor.type.dtype == DType::kI32 ? copy(tensor.as<int32_t>()) : copy(tensor.as<int64_t>());
}

// `rows`: of the data set's other fields, where there are any.
absl::StatusOr<Bounds> BoundsOf(const std::string& name, const HostTensor& offsets, int64_t count,
                                std::optional<int64_t> rows) {
  const std::string field = absl::StrCat("field \"", name, kOffsets, "\"");
  if (offsets.type.shape.size() != 1 || !IsIndexType(offsets) || offsets.data.empty()) {
    return Invalid(absl::StrCat(field, " is ", ToString(offsets.type),
                                "; offsets are one flat array of i64 or i32, an entry a row"));
  }
  Bounds bounds = ToI64(offsets);
  const auto size = static_cast<int64_t>(bounds.size());
  if (rows && size != *rows && size != *rows + 1) {
    return Invalid(absl::StrCat(field, " has ", size, " entries, but the other fields have ", *rows,
                                " rows; give an entry a row, or one more for the end"));
  }
  const bool with_end = rows ? size == *rows + 1 : bounds.back() == count;
  if (!with_end) bounds.push_back(count);
  if (bounds.size() < 2) return Invalid(absl::StrCat(field, " has no row"));
  if (bounds.front() != 0) {
    return Invalid(absl::StrCat(field, " begins with ", bounds.front(), "; it must begin with 0"));
  }
  for (size_t i = 1; i < bounds.size(); ++i) {
    if (bounds[i] < bounds[i - 1]) {
      return Invalid(absl::StrCat(field, "[", i, "] is ", bounds[i], ", less than the ",
                                  bounds[i - 1], " before it; offsets do not fall"));
    }
  }
  if (bounds.back() != count) {
    return Invalid(absl::StrCat(field, " ends at ", bounds.back(), ", but there are ", count,
                                " indices; the two belong to different data"));
  }
  return bounds;
}

// The first elements of each row, and `pad` behind them.
template <class T>
HostTensor Padded(const Bounds& bounds, int64_t pad_to, const HostTensor& flat, T pad) {
  const auto rows = static_cast<int64_t>(bounds.size()) - 1;
  HostTensor out = HostTensor::Zeros({flat.type.dtype, {rows, pad_to}});
  const absl::Span<const T> from = flat.as<T>();
  T* to = out.as<T>().data();
  for (int64_t row = 0; row < rows; ++row, to += pad_to) {
    const int64_t count = std::min(bounds[row + 1] - bounds[row], pad_to);
    if (count > 0) std::memcpy(to, from.data() + bounds[row], count * sizeof(T));
    std::fill(to + count, to + pad_to, pad);
  }
  return out;
}

HostTensor MaskOf(const Bounds& bounds, int64_t pad_to) {
  const auto rows = static_cast<int64_t>(bounds.size()) - 1;
  HostTensor mask = HostTensor::Zeros({DType::kF32, {rows, pad_to}});
  float* to = mask.as<float>().data();
  for (int64_t row = 0; row < rows; ++row, to += pad_to) {
    std::fill(to, to + std::min(bounds[row + 1] - bounds[row], pad_to), 1.0f);
  }
  return mask;
}

absl::Status CheckLengths(const std::string& name, const Bounds& bounds, const SparseRule& rule) {
  int64_t longest = 0, first = -1;
  for (size_t row = 0; row + 1 < bounds.size(); ++row) {
    const int64_t length = bounds[row + 1] - bounds[row];
    longest = std::max(longest, length);
    if (first < 0 && length > rule.pad_to) first = static_cast<int64_t>(row);
  }
  if (first < 0 || rule.overlong == SparseRule::Overlong::kCut) return absl::OkStatus();
  return Invalid(absl::StrCat(
      "field \"", name, "\", row ", first, " has ", bounds[first + 1] - bounds[first],
      " indices, more than pad_to ", rule.pad_to, "; the longest row has ", longest,
      ": set pad_to to that, or truncate: true to keep the first ", rule.pad_to, " of a row"));
}

absl::Status CheckFlat(const std::string& name, const HostTensor& indices,
                       const HostTensor* weights, const SparseRule& rule) {
  if (indices.type.shape.size() != 1 || !IsIndexType(indices)) {
    return Invalid(absl::StrCat("field \"", name, kIndices, "\" is ", ToString(indices.type),
                                "; indices are one flat array of i64 or i32"));
  }
  if (indices.type.dtype == DType::kI32 && rule.pad_value != static_cast<int32_t>(rule.pad_value)) {
    return Invalid(absl::StrCat("pad_value ", rule.pad_value, " does not fit field \"", name,
                                kIndices, "\", which is i32"));
  }
  if (weights != nullptr &&
      (!graph::IsFloat(weights->type.dtype) || weights->type.shape != indices.type.shape)) {
    return Invalid(absl::StrCat("field \"", name, kWeights, "\" is ", ToString(weights->type),
                                ", but there are ", indices.type.shape[0],
                                " indices; give a float an index"));
  }
  return absl::OkStatus();
}

// What one feature becomes. Takes memory as it is granted.
class Padder {
 public:
  Padder(Bytes limit, const Reserve& reserve) : limit_(limit), left_(limit), reserve_(reserve) {}

  absl::Status Pad(const std::string& name, const SparseRule& rule, std::optional<int64_t> rows,
                   Fields* fields) {
    auto indices = fields->extract(absl::StrCat(name, kIndices));
    auto offsets = fields->extract(absl::StrCat(name, kOffsets));
    auto weights = fields->extract(absl::StrCat(name, kWeights));
    const HostTensor* weight = weights.empty() ? nullptr : &weights.mapped();
    EBB_RETURN_IF_ERROR(CheckFlat(name, indices.mapped(), weight, rule));
    EBB_ASSIGN_OR_RETURN(const Bounds bounds,
                         BoundsOf(name, offsets.mapped(), indices.mapped().type.shape[0], rows));
    EBB_RETURN_IF_ERROR(CheckLengths(name, bounds, rule));
    const Bytes element = SizeOf(indices.mapped().type.dtype) + Bytes(sizeof(float)) +
                          (weight != nullptr ? SizeOf(weight->type.dtype) : Bytes(0));
    EBB_RETURN_IF_ERROR(Take(name, element * rule.pad_to * (std::ssize(bounds) - 1)));
    const int64_t to = rule.pad_to;
    (*fields)[name] =
        indices.mapped().type.dtype == DType::kI32
            ? Padded<int32_t>(bounds, to, indices.mapped(), static_cast<int32_t>(rule.pad_value))
            : Padded<int64_t>(bounds, to, indices.mapped(), rule.pad_value);
    (*fields)[absl::StrCat(name, ".mask")] = MaskOf(bounds, to);
    if (weight != nullptr) {
      (*fields)[absl::StrCat(name, kWeights)] = weight->type.dtype == DType::kF32
                                                    ? Padded<float>(bounds, to, *weight, 0)
                                                    : Padded<double>(bounds, to, *weight, 0);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Take(const std::string& name, Bytes bytes) {
    if (bytes > left_) {
      return absl::ResourceExhaustedError(absl::StrCat("field \"", name,
                                                       "\" pads to more than the limit of ",
                                                       FormatBytes(limit_), "; lower pad_to"));
    }
    left_ -= bytes;
    return reserve_ ? reserve_(bytes) : absl::OkStatus();
  }

  const Bytes limit_;
  Bytes left_;
  const Reserve& reserve_;
};

std::vector<std::string> Features(const Fields& fields) {
  std::vector<std::string> names;
  for (const auto& [field, tensor] : fields) {
    absl::string_view name = field;
    if (absl::ConsumeSuffix(&name, kIndices) && fields.contains(absl::StrCat(name, kOffsets))) {
      names.emplace_back(name);
    }
  }
  return names;
}

// Rows of the fields that belong to no feature, if they agree.
std::optional<int64_t> OtherRows(const Fields& fields, const std::vector<std::string>& features) {
  std::optional<int64_t> rows;
  for (const auto& [key, tensor] : fields) {
    const std::string& field = key;  // which a lambda may name (clang 14)
    const bool sparse = std::any_of(features.begin(), features.end(), [&](const std::string& name) {
      return field == absl::StrCat(name, kIndices) || field == absl::StrCat(name, kOffsets) ||
             field == absl::StrCat(name, kWeights);
    });
    if (sparse || tensor.type.shape.empty()) continue;
    if (rows && *rows != tensor.type.shape[0]) return std::nullopt;
    rows = tensor.type.shape[0];
  }
  return rows;
}

}  // namespace

absl::Status CheckSparseRules(absl::Span<const SparseRule> rules) {
  for (size_t i = 0; i < rules.size(); ++i) {
    const std::string where = absl::StrCat("sparse[", i, "]");
    if (rules[i].match.empty()) {
      return Invalid(absl::StrCat(where, ".match is empty; give the name of a field, or a glob"));
    }
    if (rules[i].pad_to < 1 || rules[i].pad_to > kMostPadTo) {
      return Invalid(absl::StrCat(where, ".pad_to is ", rules[i].pad_to,
                                  "; rows have one length: it must be between 1 and ", kMostPadTo));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Fields> PadSparse(Fields fields, absl::Span<const SparseRule> rules, Bytes limit,
                                 const Reserve& reserve) {
  const std::vector<std::string> features = Features(fields);
  const std::optional<int64_t> rows = OtherRows(fields, features);
  std::vector<bool> used(rules.size());
  Padder padder(limit, reserve);
  for (const std::string& name : features) {
    const auto rule = std::find_if(rules.begin(), rules.end(),
                                   [&](const SparseRule& r) { return GlobMatch(r.match, name); });
    if (rule == rules.end()) {
      return Invalid(absl::StrCat("fields \"", name, kIndices, "\" and \"", name, kOffsets,
                                  "\" are a sparse feature, whose rows must be padded; say sparse: "
                                  "[{match: ",
                                  name, ", pad_to: LENGTH}]"));
    }
    used[static_cast<size_t>(rule - rules.begin())] = true;
    if (fields.contains(name)) {
      return Invalid(absl::StrCat("the data have a field \"", name, "\" and the sparse feature \"",
                                  name, kIndices,
                                  "\", which becomes one of that name; rename one"));
    }
    EBB_RETURN_IF_ERROR(padder.Pad(name, *rule, rows, &fields));
  }
  for (size_t i = 0; i < rules.size(); ++i) {
    if (used[i]) continue;
    return Invalid(absl::StrCat(
        "sparse[", i, "] matches no sparse feature; ",
        features.empty()
            ? "the data have none: a feature NAME is the fields NAME.indices and NAME.offsets"
            : absl::StrCat("they are ", absl::StrJoin(features, ", "))));
  }
  return fields;
}

}  // namespace ebb::data
