// A kernel for an element type: make(T()) with the C++ type that stores it, on every device. `make`
// returns a kernel or a StatusOr of one. BadType for the types that a function leaves out. Nodes of
// bf16 and f16 come only to kernels that store them (ForFloat); the others run on f32 copies
// (device/common/rounded.h).
#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "device/common/half.h"
#include "device/common/operands.h"

namespace ebb::device {

namespace internal {
template <class T>
struct StatusOrOf {
  using Type = absl::StatusOr<T>;
};
template <class T>
struct StatusOrOf<absl::StatusOr<T>> {
  using Type = absl::StatusOr<T>;
};
template <class F, class T = float>  // any type that it takes will do
using MadeBy = typename StatusOrOf<decltype(std::declval<F>()(T()))>::Type;
}  // namespace internal

// bf16, f16.
template <class F>
internal::MadeBy<F, Bf16> ForLow(const Node& node, DType dtype, F make) {
  switch (dtype) {
    case DType::kBF16:
      return make(Bf16());
    case DType::kF16:
      return make(F16());
    default:
      return BadType(node, dtype);
  }
}

// What activations are stored in: these, and f32.
template <class F>
internal::MadeBy<F> ForFloat(const Node& node, DType dtype, F make) {
  return dtype == DType::kF32 ? internal::MadeBy<F>(make(float())) : ForLow(node, dtype, make);
}

// f32, i32, i64.
template <class F>
internal::MadeBy<F> ForNumber(const Node& node, DType dtype, F make) {
  switch (dtype) {
    case DType::kF32:
      return make(float());
    case DType::kI32:
      return make(int32_t());
    case DType::kI64:
      return make(int64_t());
    default:
      return BadType(node, dtype);
  }
}

// These, and u8 and bool, which are stored alike.
template <class F>
internal::MadeBy<F> ForNumberOrByte(const Node& node, DType dtype, F make) {
  if (dtype == DType::kU8 || dtype == DType::kBool) return make(uint8_t());
  return ForNumber(node, dtype, make);
}

// These, and f64.
template <class F>
internal::MadeBy<F> ForStored(const Node& node, DType dtype, F make) {
  if (dtype == DType::kF64) return make(double());
  return ForNumberOrByte(node, dtype, make);
}

}  // namespace ebb::device
