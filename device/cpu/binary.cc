// Ops of several inputs with numpy broadcasting: arithmetic, AddN, Where and Expand.
#include "device/math/binary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "device/common/dispatch.h"
#include "device/cpu/binary_row.h"

namespace ebb::device::cpu {
namespace {

using namespace math;  // NOLINT(google-build-using-namespace): the functors

template <class F>
absl::StatusOr<Kernel> FloatBinary(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_ASSIGN_OR_RETURN(const auto plan, PlanBinary(graph, node));
  return BinaryOf<float, float, F>(plan);
}

template <class F>
absl::StatusOr<Kernel> Binary(const Graph& graph, const Node& node) {
  EBB_ASSIGN_OR_RETURN(const auto plan, PlanBinary(graph, node));
  return ForNumber(node, Out(graph, node).type.dtype, [&](auto zero) {
    using T = decltype(zero);
    return BinaryOf<T, T, F>(plan);
  });
}

absl::StatusOr<Kernel> MakeMod(const Graph& graph, const Node& node) {
  return node.attrs.Int("fmod", 0) != 0 ? Binary<Mod<true>>(graph, node)
                                        : Binary<Mod<false>>(graph, node);
}

// Squares and roots are what Pow is used for: they need not go through pow().
absl::StatusOr<Kernel> MakePow(const Graph& graph, const Node& node) {
  EBB_ASSIGN_OR_RETURN(Kernel general, FloatBinary<Pow>(graph, node));
  if (NumElements(In(graph, node, 1).type.shape) != 1) return general;
  const int64_t n = OutElements(graph, node);
  const bool same_size = NumElements(In(graph, node, 0).type.shape) == n;
  return MakeKernel([n, same_size, general](const KernelArgs& args) {
    const float exponent = *InPtr<float>(args, 1);
    if (same_size && exponent == 2.0f) {
      Map1(InPtr<float>(args), OutPtr<float>(args), n, [](float x) { return x * x; });
      return absl::OkStatus();
    }
    if (same_size && exponent == 1.0f) {
      Map1(InPtr<float>(args), OutPtr<float>(args), n, [](float x) { return x; });
      return absl::OkStatus();
    }
    return general.run(args);
  });
}

template <class T>
Kernel AddNOf(int64_t n) {
  return MakeKernel([n](const KernelArgs& args) {
    T* y = OutPtr<T>(args);
    if (args.in.size() == 1) {
      if (y != InPtr<T>(args)) std::copy_n(InPtr<T>(args), n, y);
      return absl::OkStatus();
    }
    BinaryRow(InPtr<T>(args, 0), 1, InPtr<T>(args, 1), 1, y, n, Add());
    for (size_t i = 2; i < args.in.size(); ++i) {
      BinaryRow<T, T>(y, 1, InPtr<T>(args, i), 1, y, n, Add());
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeAddN(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireOneLayout(graph, node));
  return ForNumber(node, Out(graph, node).type.dtype,
                   [n = OutElements(graph, node)](auto zero) { return AddNOf<decltype(zero)>(n); });
}

template <class T>
EBB_CLONES void WhereRow(const uint8_t* cond, int64_t sc, const T* a, int64_t sa, const T* b,
                         int64_t sb, T* y, int64_t n) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) y[i] = cond[i * sc] != 0 ? a[i * sa] : b[i * sb];
}

// Elements are moved, not computed with: one kernel a size.
template <class T>
Kernel WhereOf(const Broadcast<3>& plan) {
  return MakeKernel([plan](const KernelArgs& args) {
    const int last = plan.rank - 1;
    plan.ForEachRow([&](const std::array<int64_t, 3>& at, int64_t out) {
      WhereRow(InPtr<uint8_t>(args, 0) + at[0], plan.stride[0][last], InPtr<T>(args, 1) + at[1],
               plan.stride[1][last], InPtr<T>(args, 2) + at[2], plan.stride[2][last],
               OutPtr<T>(args) + out, plan.row);
    });
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeWhere(const Graph& graph, const Node& node) {
  const Value& out = Out(graph, node);
  std::array<Shape, 3> shapes;
  for (size_t i = 0; i < 3; ++i) {
    EBB_ASSIGN_OR_RETURN(shapes[i], OperandShape(node, In(graph, node, i), out));
  }
  EBB_ASSIGN_OR_RETURN(const auto plan, MakeBroadcast<3>(PhysicalShape(out), shapes));
  switch (graph::SizeOf(out.type.dtype).count()) {
    case 1:
      return WhereOf<uint8_t>(plan);
    case 4:
      return WhereOf<uint32_t>(plan);
    default:
      return WhereOf<uint64_t>(plan);
  }
}

template <class T>
Kernel ExpandOf(const Broadcast<1>& plan) {
  return MakeKernel([plan](const KernelArgs& args) {
    const bool copy = plan.stride[0][plan.rank - 1] != 0;
    plan.ForEachRow([&](const std::array<int64_t, 1>& at, int64_t out) {
      const T* x = InPtr<T>(args) + at[0];
      T* y = OutPtr<T>(args) + out;
      if (copy) {
        std::copy_n(x, plan.row, y);
      } else {
        std::fill_n(y, plan.row, *x);
      }
    });
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeExpand(const Graph& graph, const Node& node) {
  const Value& out = Out(graph, node);
  EBB_ASSIGN_OR_RETURN(const Shape shape, OperandShape(node, In(graph, node), out));
  EBB_ASSIGN_OR_RETURN(const auto plan, MakeBroadcast<1>(PhysicalShape(out), {shape}));
  switch (graph::SizeOf(out.type.dtype).count()) {
    case 1:
      return ExpandOf<uint8_t>(plan);
    case 4:
      return ExpandOf<uint32_t>(plan);
    default:
      return ExpandOf<uint64_t>(plan);
  }
}

constexpr KernelRow kRows[] = {
    {"Add", Binary<Add>},   {"AddN", MakeAddN},   {"Div", Binary<Div>},
    {"Expand", MakeExpand}, {"Max", Binary<Max>}, {"GreaterEqual", FloatBinary<GreaterEqual>},
    {"Mod", MakeMod},       {"Min", Binary<Min>}, {"Mul", Binary<Mul>},
    {"Pow", MakePow},       {"Sub", Binary<Sub>}, {"Where", MakeWhere},
};

}  // namespace

absl::Span<const KernelRow> BinaryKernels() { return kRows; }

}  // namespace ebb::device::cpu
