// Ops of several inputs with numpy broadcasting: arithmetic, AddN, Where and Expand.
#include "base/status.h"
#include "device/common/dispatch.h"
#include "device/cuda/broadcast_map.h"
#include "device/cuda/fill.h"
#include "device/math/binary.h"

namespace ebb::device::cuda {
namespace {

using namespace math;  // NOLINT(google-build-using-namespace): the functors

template <class F>
absl::StatusOr<CudaKernel> FloatBinary(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_ASSIGN_OR_RETURN(const auto plan, PlanBinary(graph, node));
  return BroadcastKernel<float, float, float>(plan, F());
}

template <class F>
absl::StatusOr<CudaKernel> Binary(const Graph& graph, const Node& node) {
  EBB_ASSIGN_OR_RETURN(const auto plan, PlanBinary(graph, node));
  return ForNumber(node, Out(graph, node).type.dtype, [&](auto zero) {
    using T = decltype(zero);
    return BroadcastKernel<T, T, T>(plan, F());
  });
}

absl::StatusOr<CudaKernel> MakeMod(const Graph& graph, const Node& node) {
  return node.attrs.Int("fmod", 0) != 0 ? Binary<Mod<true>>(graph, node)
                                        : Binary<Mod<false>>(graph, node);
}

// Squares are what Pow is used for most: they need not go through pow().
struct PowOrSquare {
  EBB_INLINE float operator()(float a, float b) const { return b == 2.0f ? a * a : Pow()(a, b); }
};

// The sum from left to right.
struct AddAll {
  template <class T>
  EBB_INLINE T operator()(T a) const {
    return a;
  }
  template <class T, class... More>
  EBB_INLINE T operator()(T a, T b, More... more) const {
    return (*this)(Add()(a, b), more...);
  }
};

// Up to four inputs a pass; later passes go on from the sum.
template <class T>
absl::Status AddInputs(const Launch& at, int64_t n, const KernelArgs& args) {
  T* const y = OutPtr<T>(args);
  const T* sum = InPtr<T>(args);
  const size_t count = args.in.size();
  if (count == 1) return Copy(at, y, sum, n * static_cast<int64_t>(sizeof(T)));
  for (size_t i = 1; i < count;) {
    const size_t left = count - i;
    const auto x = [&](size_t k) { return InPtr<T>(args, i + k); };
    absl::Status status = left == 1   ? Map(at, n, AddAll(), y, sum, x(0))
                          : left == 2 ? Map(at, n, AddAll(), y, sum, x(0), x(1))
                                      : Map(at, n, AddAll(), y, sum, x(0), x(1), x(2));
    EBB_RETURN_IF_ERROR(status);
    sum = y;
    i += 3;
  }
  return absl::OkStatus();
}

template <class T>
CudaKernel AddNOf(int64_t n) {
  return MakeCudaKernel(
      [n](const Launch& at, const KernelArgs& args) { return AddInputs<T>(at, n, args); });
}

absl::StatusOr<CudaKernel> MakeAddN(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireOneLayout(graph, node));
  return ForNumber(node, Out(graph, node).type.dtype,
                   [n = OutElements(graph, node)](auto zero) { return AddNOf<decltype(zero)>(n); });
}

struct Select {
  template <class T>
  EBB_INLINE T operator()(uint8_t condition, T a, T b) const {
    return condition != 0 ? a : b;
  }
};

// Elements are moved, not computed with: one kernel a size.
absl::StatusOr<CudaKernel> MakeWhere(const Graph& graph, const Node& node) {
  const Value& out = Out(graph, node);
  std::array<Shape, 3> shapes;
  for (size_t i = 0; i < 3; ++i) {
    EBB_ASSIGN_OR_RETURN(shapes[i], OperandShape(node, In(graph, node, i), out));
  }
  EBB_ASSIGN_OR_RETURN(const auto plan, MakeBroadcast<3>(PhysicalShape(out), shapes));
  switch (graph::SizeOf(out.type.dtype).count()) {
    case 1:
      return BroadcastKernel<uint8_t, uint8_t, uint8_t, uint8_t>(plan, Select());
    case 4:
      return BroadcastKernel<uint32_t, uint8_t, uint32_t, uint32_t>(plan, Select());
    default:
      return BroadcastKernel<uint64_t, uint8_t, uint64_t, uint64_t>(plan, Select());
  }
}

absl::StatusOr<CudaKernel> MakeExpand(const Graph& graph, const Node& node) {
  const Value& out = Out(graph, node);
  EBB_ASSIGN_OR_RETURN(const Shape shape, OperandShape(node, In(graph, node), out));
  EBB_ASSIGN_OR_RETURN(const auto plan, MakeBroadcast<1>(PhysicalShape(out), {shape}));
  switch (graph::SizeOf(out.type.dtype).count()) {
    case 1:
      return BroadcastKernel<uint8_t, uint8_t>(plan, SameBits());
    case 4:
      return BroadcastKernel<uint32_t, uint32_t>(plan, SameBits());
    default:
      return BroadcastKernel<uint64_t, uint64_t>(plan, SameBits());
  }
}

constexpr CudaKernelRow kRows[] = {
    {"Add", Binary<Add>},   {"AddN", MakeAddN},   {"Div", Binary<Div>},
    {"Expand", MakeExpand}, {"Max", Binary<Max>}, {"GreaterEqual", FloatBinary<GreaterEqual>},
    {"Mod", MakeMod},       {"Min", Binary<Min>}, {"Mul", Binary<Mul>},
    {"Sub", Binary<Sub>},   {"Where", MakeWhere}, {"Pow", FloatBinary<PowOrSquare>},
};

}  // namespace

absl::Span<const CudaKernelRow> BinaryKernels() { return kRows; }

}  // namespace ebb::device::cuda
