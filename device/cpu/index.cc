// Elements and slices by index: GatherElements, GatherND, their gradients, which add in the order
// of the indices, and the two scatters, in which the last of several updates of one place stands.
// Indices below 0 count from the end; what is out of range is read as zero and not written.
#include <algorithm>

#include "device/common/dispatch.h"
#include "device/common/pointers.h"
#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

template <class T, class Plan, class I>
Kernel GatherOf(const Plan& plan, I) {
  return MakeKernel([plan](const KernelArgs& args) {
    const T* x = InPtr<T>(args);
    T* y = OutPtr<T>(args);
    const int64_t n = plan.slice();
    plan.ForEach(InPtr<I>(args, 1), [&](int64_t j, int64_t offset) {
      if (n == 1) {
        y[j] = offset < 0 ? T(0) : x[offset];
      } else if (offset < 0) {
        std::fill_n(y + j * n, n, T(0));
      } else {
        std::copy_n(x + offset, n, y + j * n);
      }
    });
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeGather(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const TensorType& x = In(graph, node, 0).type;
  return WithPointers(graph, node, x.shape, [&](const auto& plan, auto index) {
    switch (graph::SizeOf(x.dtype).count()) {
      case 1:
        return GatherOf<uint8_t>(plan, index);
      case 4:
        return GatherOf<uint32_t>(plan, index);
      default:
        return GatherOf<uint64_t>(plan, index);
    }
  });
}

EBB_CLONES void AddRow(const float* x, float* y, int64_t n) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

absl::StatusOr<Kernel> MakeGatherGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const int64_t elements = OutElements(graph, node);
  return WithPointers(graph, node, Out(graph, node).type.shape, [&](const auto& plan, auto index) {
    return MakeKernel([plan, elements](const KernelArgs& args) {
      const float* dy = InPtr<float>(args);
      float* dx = OutPtr<float>(args);
      std::fill_n(dx, elements, 0.0f);
      const int64_t n = plan.slice();
      plan.ForEach(InPtr<decltype(index)>(args, 1), [&](int64_t j, int64_t offset) {
        if (offset >= 0) AddRow(dy + j * n, dx + offset, n);
      });
      return absl::OkStatus();
    });
  });
}

template <class T, class Plan, class I>
Kernel ScatterOf(const Plan& plan, I, ScatterHow how, int64_t elements) {
  return MakeKernel([plan, how, elements](const KernelArgs& args) {
    T* y = OutPtr<T>(args);
    if (y != InPtr<T>(args)) std::copy_n(InPtr<T>(args), elements, y);
    const T* updates = InPtr<T>(args, 2);
    const int64_t n = plan.slice();
    plan.ForEach(InPtr<I>(args, 1), [&](int64_t j, int64_t offset) {
      if (offset < 0) return;
      for (int64_t i = 0; i < n; ++i) {
        y[offset + i] = ScatterCombined(how, y[offset + i], updates[j * n + i]);
      }
    });
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeScatter(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const TensorType& x = In(graph, node, 0).type;
  const ScatterHow how = ScatterHowOf(node);
  if (how != ScatterHow::kReplace && x.dtype == DType::kF64) return BadType(node, x.dtype);
  const int64_t elements = NumElements(x.shape);
  return WithPointers(graph, node, x.shape, [&](const auto& plan, auto index) {
    // f64 is only replaced, which is a move of eight bytes.
    return ForNumberOrByte(node, x.dtype == DType::kF64 ? DType::kI64 : x.dtype, [&](auto zero) {
      return ScatterOf<decltype(zero)>(plan, index, how, elements);
    });
  });
}

constexpr KernelRow kRows[] = {
    {"GatherElements", MakeGather}, {"GatherElementsGrad", MakeGatherGrad},
    {"GatherND", MakeGather},       {"GatherNDGrad", MakeGatherGrad},
    {"ScatterND", MakeScatter},     {"ScatterElements", MakeScatter},
};

}  // namespace

absl::Span<const KernelRow> IndexKernels() { return kRows; }

}  // namespace ebb::device::cpu
