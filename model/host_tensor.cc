// Allocation and index arithmetic of host tensors.
#include "model/host_tensor.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "graph/verify.h"

namespace ebb::model {

absl::Status CheckHostType(const TensorType& type) {
  EBB_RETURN_IF_ERROR(graph::CheckType(type));
  TensorType filled = type;
  for (int64_t& dim : filled.shape) dim = dim == 0 ? 1 : dim;
  return graph::CheckType(filled);
}

absl::StatusOr<HostTensor> HostBudget::Allocate(TensorType type) {
  EBB_RETURN_IF_ERROR(CheckHostType(type));
  const Bytes bytes = type.bytes();
  if (bytes > left_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "computing constants needs more than ", FormatBytes(limit_), " (here ",
        graph::ToString(type), "); give large tensors as initializers or inputs instead"));
  }
  left_ = left_ - bytes;
  return HostTensor::Zeros(std::move(type));
}

Shape BroadcastStrides(const Shape& shape, const Shape& to) {
  const Shape own = graph::StridesOf(shape);
  Shape strides(to.size(), 0);
  const size_t lead = to.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) strides[lead + i] = own[i];
  }
  return strides;
}

int64_t SaturatedInt(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 9223372036854775807.0) return std::numeric_limits<int64_t>::max();
  if (value <= -9223372036854775808.0) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

std::vector<int64_t> AsInts(const HostTensor& tensor) {
  return VisitDType(tensor.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    std::vector<int64_t> values;
    for (T value : tensor.as<T>()) {
      if constexpr (std::is_floating_point_v<T>) {
        values.push_back(SaturatedInt(value));
      } else {
        values.push_back(value);
      }
    }
    return values;
  });
}

std::vector<double> AsDoubles(const HostTensor& tensor) {
  return VisitDType(tensor.type.dtype, [&](auto zero) {
    const auto values = tensor.as<decltype(zero)>();
    return std::vector<double>(values.begin(), values.end());
  });
}

double FirstAsDouble(const HostTensor& tensor) {
  return VisitDType(tensor.type.dtype,
                    [&](auto zero) { return static_cast<double>(tensor.as<decltype(zero)>()[0]); });
}

HostTensor ScalarTensor(DType dtype, double value) {
  HostTensor tensor = HostTensor::Zeros({dtype, {}});
  VisitDType(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      tensor.as<T>()[0] = static_cast<T>(value);
    } else {
      tensor.as<T>()[0] = static_cast<T>(SaturatedInt(value));
    }
  });
  return tensor;
}

}  // namespace ebb::model
