// In which numbers a product or a convolution is computed, for whatever library computes it. Sums
// are of f32 in all of them.
#pragma once

#include "device/common/operands.h"

namespace ebb::device {

// How operands are stored, and for kTf32 that the library may round f32 factors to ten bits of
// fraction.
enum class Precision { kF32, kTf32, kBf16, kF16 };

inline Precision PrecisionOf(const Graph& graph, const Node& node) {
  switch (In(graph, node).type.dtype) {
    case DType::kBF16:
      return Precision::kBf16;
    case DType::kF16:
      return Precision::kF16;
    default:
      return node.attrs.Int("tf32", 0) != 0 ? Precision::kTf32 : Precision::kF32;
  }
}

inline const char* NameOf(Precision precision) {
  constexpr const char* kNames[] = {"f32", "tf32", "bf16", "f16"};
  return kNames[static_cast<size_t>(precision)];
}

// Of an element, in bytes.
inline int64_t SizeOf(Precision precision) {
  return precision == Precision::kBf16 || precision == Precision::kF16 ? 2 : 4;
}

}  // namespace ebb::device
