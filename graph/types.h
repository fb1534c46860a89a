// Element types, shapes and host tensors: the nouns that every other module of the graph uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/units.h"

namespace ebb::graph {

// kBF16 (the upper half of an f32) and kF16 (IEEE half precision) are what mixed precision makes of
// activations; data, weights and constants never have them.
enum class DType : uint8_t { kF32, kF64, kI32, kI64, kU8, kBool, kBF16, kF16 };

Bytes SizeOf(DType dtype);
absl::string_view Name(DType dtype);  // "f32", "f64", "i32", "i64", "u8", "bool", "bf16", "f16"
// The types that data and models come in: all but bf16 and f16.
std::optional<DType> ParseDType(absl::string_view name);
// All of them.
std::optional<DType> ParseGraphDType(absl::string_view name);
// The types of mixed precision.
constexpr bool IsLow(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }
constexpr bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || IsLow(dtype);
}

// Row-major dimensions; rank 0 is a scalar. Every dimension is known and >= 0.
using Shape = absl::InlinedVector<int64_t, 4>;

int64_t NumElements(const Shape& shape);
std::string ToString(const Shape& shape);  // "[8,3,32,32]"
// Row-major strides in elements.
Shape StridesOf(const Shape& shape);
// numpy broadcasting of two shapes; nullopt if they do not fit.
std::optional<Shape> BroadcastShapes(const Shape& a, const Shape& b);

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;
  bool operator==(const TensorType&) const = default;
  Bytes bytes() const { return SizeOf(dtype) * NumElements(shape); }
};

std::string ToString(const TensorType& type);  // "f32[8,3,32,32]"

// A dense row-major tensor in host memory that owns its bytes.
struct HostTensor {
  TensorType type;
  std::vector<std::byte> data;  // exactly type.bytes()

  static HostTensor Zeros(TensorType type);
  template <class T>
  static HostTensor Of(DType dtype, Shape shape, const std::vector<T>& values);

  template <class T>
  absl::Span<const T> as() const {
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
  template <class T>
  absl::Span<T> as() {
    return {reinterpret_cast<T*>(data.data()), data.size() / sizeof(T)};
  }
};

template <class T>
HostTensor HostTensor::Of(DType dtype, Shape shape, const std::vector<T>& values) {
  HostTensor tensor{{dtype, std::move(shape)}, {}};
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  tensor.data.assign(bytes, bytes + values.size() * sizeof(T));
  return tensor;
}

}  // namespace ebb::graph
