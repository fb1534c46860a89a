// The table of host evaluation, and the ops that make values from types and attributes.
#include "model/host_fold.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/onnx_shapes.h"
#include "model/onnx_tensor.h"

namespace ebb::model {
namespace {

using Tensors = std::vector<HostTensor>;

Tensors One(HostTensor tensor) {
  Tensors list;
  list.push_back(std::move(tensor));
  return list;
}

absl::StatusOr<Tensors> FoldShape(const NodeView& node, HostBudget&) {
  const int64_t rank = node.rank(0);
  const auto bound = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const int64_t start = bound(node.Int("start", 0));
  const int64_t end = std::max(start, bound(node.Int("end", rank)));
  const Ints dims(node.shape(0).begin() + start, node.shape(0).begin() + end);
  return One(HostTensor::Of<int64_t>(DType::kI64, {end - start}, dims));
}

absl::StatusOr<Tensors> FoldSize(const NodeView& node, HostBudget&) {
  return One(HostTensor::Of<int64_t>(DType::kI64, {}, {graph::NumElements(node.shape(0))}));
}

absl::StatusOr<Tensors> FoldConstant(const NodeView& node, HostBudget&) {
  if (const onnx::TensorProto* tensor = node.Tensor("value"); tensor != nullptr) {
    auto value = ReadTensor(*tensor, "");
    if (!value.ok()) return Annotate(value.status(), NodeLabel(node.proto(), node.opset()));
    return One(*std::move(value));
  }
  if (node.HasAttr("value_float")) {
    return One(
        HostTensor::Of<float>(DType::kF32, {}, {static_cast<float>(node.Float("value_float", 0))}));
  }
  if (node.HasAttr("value_int")) {
    return One(HostTensor::Of<int64_t>(DType::kI64, {}, {node.Int("value_int", 0)}));
  }
  if (node.HasAttr("value_floats")) {
    const auto values = node.Floats("value_floats");
    return One(HostTensor::Of<float>(DType::kF32, {static_cast<int64_t>(values.size())}, values));
  }
  if (node.HasAttr("value_ints")) {
    const auto values = node.Ints("value_ints");
    return One(HostTensor::Of<int64_t>(DType::kI64, {static_cast<int64_t>(values.size())}, values));
  }
  return node.Unimplemented("sparse and string constants are not supported");
}

absl::StatusOr<Tensors> FoldConstantOfShape(const NodeView& node, HostBudget& budget) {
  EBB_ASSIGN_OR_RETURN(const Ints dims, node.KnownInts(0, "shape"));
  HostTensor fill = HostTensor::Zeros({DType::kF32, {1}});
  if (const onnx::TensorProto* tensor = node.Tensor("value"); tensor != nullptr) {
    auto value = ReadTensor(*tensor, "");
    if (!value.ok()) return Annotate(value.status(), NodeLabel(node.proto(), node.opset()));
    fill = *std::move(value);
    if (graph::NumElements(fill.type.shape) != 1) return node.Invalid("value must be one element");
  }
  auto out = budget.Allocate({fill.type.dtype, Shape(dims.begin(), dims.end())});
  if (!out.ok()) return node.Invalid(out.status().message());
  VisitDType(fill.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    auto span = out->as<T>();
    std::fill(span.begin(), span.end(), std::as_const(fill).as<T>()[0]);
  });
  return One(*std::move(out));
}

absl::StatusOr<Tensors> FoldRange(const NodeView& node, HostBudget& budget) {
  const DType dtype = node.type(0).dtype;
  for (size_t i = 0; i < 3; ++i) {
    if (node.type(i).dtype != dtype || graph::NumElements(node.shape(i)) != 1) {
      return node.Invalid("start, limit and delta must be scalars of one type");
    }
  }
  const double start = FirstAsDouble(*node.host(0));
  const double limit = FirstAsDouble(*node.host(1));
  const double delta = FirstAsDouble(*node.host(2));
  const double count = delta == 0 ? -1 : std::ceil((limit - start) / delta);
  if (delta == 0 || !std::isfinite(count)) return node.Invalid("start, limit or delta is wrong");
  const int64_t size = std::max<int64_t>(0, SaturatedInt(count));
  auto out = budget.Allocate({dtype, {size}});
  if (!out.ok()) return node.Invalid(out.status().message());
  VisitDType(dtype, [&](auto zero) {
    using T = decltype(zero);
    auto span = out->as<T>();
    for (int64_t i = 0; i < size; ++i) {
      const double value = start + static_cast<double>(i) * delta;
      if constexpr (std::is_floating_point_v<T>) {
        span[static_cast<size_t>(i)] = static_cast<T>(value);
      } else {
        span[static_cast<size_t>(i)] = static_cast<T>(SaturatedInt(value));
      }
    }
  });
  return One(*std::move(out));
}

constexpr FoldRow kMakers[] = {{"Shape", FoldShape, 1, 1, true},
                               {"Size", FoldSize, 1, 1, true},
                               {"Constant", FoldConstant, 0, 0},
                               {"ConstantOfShape", FoldConstantOfShape, 1, 1},
                               {"Range", FoldRange, 3, 3}};

}  // namespace

const FoldRow* FindFold(absl::string_view op) {
  static const auto* const table = [] {
    auto* rows = new absl::flat_hash_map<absl::string_view, const FoldRow*>();
    for (absl::Span<const FoldRow> family :
         {absl::MakeConstSpan(kMakers), FoldArith(), FoldUnaries(), FoldMove()}) {
      for (const FoldRow& row : family) rows->emplace(row.op, &row);
    }
    return rows;
  }();
  const auto it = table->find(op);
  return it == table->end() ? nullptr : it->second;
}

}  // namespace ebb::model
