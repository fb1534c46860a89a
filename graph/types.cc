#include "graph/types.h"

#include <algorithm>
#include <array>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ebb::graph {
namespace {

constexpr std::array<absl::string_view, 8> kNames = {"f32", "f64",  "i32",  "i64",
                                                     "u8",  "bool", "bf16", "f16"};

// Counts saturate here, so that even eight times as much stays an int64.
constexpr int64_t kMaxElements = std::numeric_limits<int64_t>::max() / 16;

}  // namespace

Bytes SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return Bytes(8);
    case DType::kF32:
    case DType::kI32:
      return Bytes(4);
    case DType::kBF16:
    case DType::kF16:
      return Bytes(2);
    case DType::kU8:
    case DType::kBool:
      return Bytes(1);
  }
  return Bytes(0);
}

absl::string_view Name(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  return index < kNames.size() ? kNames[index] : "?";
}

std::optional<DType> ParseDType(absl::string_view name) {
  const std::optional<DType> dtype = ParseGraphDType(name);
  return dtype.has_value() && IsLow(*dtype) ? std::nullopt : dtype;
}

std::optional<DType> ParseGraphDType(absl::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

int64_t NumElements(const Shape& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t count = 1;
  for (int64_t dim : shape) {
    if (__builtin_mul_overflow(count, dim, &count) || count > kMaxElements) return kMaxElements;
  }
  return count;
}

std::string ToString(const Shape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

Shape StridesOf(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::optional<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  const size_t rank = std::max(a.size(), b.size());
  Shape out(rank, 1);
  for (size_t i = 0; i < rank; ++i) {  // i counts from the last dimension
    const int64_t da = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t db = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (da != db && da != 1 && db != 1) return std::nullopt;
    out[rank - 1 - i] = da == 1 ? db : da;
  }
  return out;
}

std::string ToString(const TensorType& type) {
  return absl::StrCat(Name(type.dtype), ToString(type.shape));
}

HostTensor HostTensor::Zeros(TensorType type) {
  const auto size = static_cast<size_t>(type.bytes().count());
  return {std::move(type), std::vector<std::byte>(size)};
}

}  // namespace ebb::graph
