// Host tensors under a budget: what importing may allocate, and index arithmetic over row-major
// data.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/types.h"

namespace ebb::model {

using graph::DType;
using graph::HostTensor;
using graph::Shape;
using graph::TensorType;

// What may come from a file: graph::CheckType, and no dimension that hides behind an empty one.
absl::Status CheckHostType(const TensorType& type);

// How many bytes host evaluation may still make, so that a small file cannot ask for a huge tensor.
class HostBudget {
 public:
  explicit HostBudget(Bytes limit) : limit_(limit), left_(limit) {}
  // A zeroed tensor, or InvalidArgument: not a type that may exist, or beyond the budget.
  absl::StatusOr<HostTensor> Allocate(TensorType type);

 private:
  Bytes limit_;
  Bytes left_;
};

// Row-major strides of `shape` broadcast to `to` (0 along broadcast axes); the shapes must fit.
Shape BroadcastStrides(const Shape& shape, const Shape& to);

// Calls fn(i, offset) for every element i of `shape` in row-major order, where offset is
// start + the sum of index x stride.
template <class F>
void ForEachOffset(const Shape& shape, const Shape& strides, int64_t start, F&& fn) {
  const int64_t count = graph::NumElements(shape);
  Shape index(shape.size(), 0);
  int64_t offset = start;
  for (int64_t i = 0; i < count; ++i) {
    fn(i, offset);
    for (size_t axis = shape.size(); axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

// The elements as integers (floats truncate, saturating) or doubles, whatever the dtype is.
std::vector<int64_t> AsInts(const HostTensor& tensor);
std::vector<double> AsDoubles(const HostTensor& tensor);
double FirstAsDouble(const HostTensor& tensor);  // tensor must not be empty

// A tensor of one number and no dimensions.
HostTensor ScalarTensor(DType dtype, double value);

// Truncates toward zero; NaN is 0, what is out of range is the nearest bound.
int64_t SaturatedInt(double value);

// Calls fn with a zero of the C++ type that stores `dtype` (bool is stored as uint8_t).
template <class F>
auto VisitDType(DType dtype, F&& fn) {
  switch (dtype) {
    case DType::kF32:
      return fn(float{});
    case DType::kF64:
      return fn(double{});
    case DType::kI32:
      return fn(int32_t{});
    case DType::kI64:
      return fn(int64_t{});
    case DType::kU8:
    case DType::kBool:
    case DType::kBF16:
    case DType::kF16:  // host tensors never are
      break;
  }
  return fn(uint8_t{});
}

}  // namespace ebb::model
