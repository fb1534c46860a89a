// Ops of several inputs with numpy broadcasting: arithmetic, AddN, Where and Expand.
#include "base/status.h"
#include "device/common/dispatch.h"
#include "device/cuda/broadcast_map.h"
#include "device/cuda/fill.h"
#include "device/cuda/low_storage.h"
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

// Of what mixed precision leaves in 16 bits, also that.
template <class F>
absl::StatusOr<CudaKernel> LowBinary(const Graph& graph, const Node& node) {
  const DType dtype = Out(graph, node).type.dtype;
  if (!graph::IsLow(dtype)) return Binary<F>(graph, node);
  EBB_ASSIGN_OR_RETURN(const auto plan, PlanBinary(graph, node));
  return ForLow(node, dtype, [&](auto zero) {
    using T = decltype(zero);
    return BroadcastKernel<T, T, T>(plan, F());
  });
}

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

// All inputs in one pass, so that a sum in 16 bits is rounded once.
template <class T, int kCount>
struct AddMany {
  EBB_INLINE void operator()(int64_t pack) const {
    float sum[kCount];
    EBB_UNROLL
    for (int e = 0; e < kCount; ++e) sum[e] = Read(PackOf(0, pack).at[e]);
    for (int k = 1; k < count; ++k) {
      const Pack<T, kCount> more = PackOf(k, pack);
      EBB_UNROLL
      for (int e = 0; e < kCount; ++e) sum[e] += Read(more.at[e]);
    }
    Pack<T, kCount> out;
    EBB_UNROLL
    for (int e = 0; e < kCount; ++e) out.at[e] = Stored<T>(sum[e]);
    reinterpret_cast<Pack<T, kCount>*>(y)[pack] = out;
  }
  EBB_INLINE Pack<T, kCount> PackOf(int k, int64_t pack) const {
    return reinterpret_cast<const Pack<T, kCount>*>(x[k])[pack];
  }
  const T* x[kMaxLowInputs];
  int count;
  T* y;
};

template <class T, int kCount>
absl::Status AddPacks(const Launch& at, int64_t first, int64_t packs, const KernelArgs& args) {
  AddMany<T, kCount> add{{}, static_cast<int>(args.in.size()), OutPtr<T>(args) + first};
  for (size_t k = 0; k < args.in.size(); ++k) add.x[k] = InPtr<T>(args, k) + first;
  return ForEach(at, packs, add);
}

template <class T>
absl::Status AddLowInputs(const Launch& at, int64_t n, const KernelArgs& args) {
  if (args.in.size() == 1) return Copy(at, args.out[0], args.in[0], n * 2);
  if (args.in.size() == 2) {
    return Map(at, n, Add(), OutPtr<T>(args), InPtr<T>(args), InPtr<T>(args, 1));
  }
  constexpr int kCount = internal::kPackOf<T>;
  bool packed = internal::AlignedTo16(args.out[0]);
  for (const void* x : args.in) packed = packed && internal::AlignedTo16(x);
  const int64_t packs = packed ? n / kCount : 0;
  EBB_RETURN_IF_ERROR((AddPacks<T, kCount>(at, 0, packs, args)));
  return AddPacks<T, 1>(at, packs * kCount, n - packs * kCount, args);
}

absl::StatusOr<CudaKernel> MakeAddN(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireOneLayout(graph, node));
  const DType dtype = Out(graph, node).type.dtype;
  const int64_t n = OutElements(graph, node);
  if (graph::IsLow(dtype)) {
    return ForLow(node, dtype, [n](auto zero) {
      return MakeCudaKernel([n](const Launch& at, const KernelArgs& args) {
        return AddLowInputs<decltype(zero)>(at, n, args);
      });
    });
  }
  return ForNumber(node, dtype, [n](auto zero) {
    return MakeCudaKernel([n](const Launch& at, const KernelArgs& args) {
      return AddInputs<decltype(zero)>(at, n, args);
    });
  });
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
    case 2:
      return BroadcastKernel<uint16_t, uint8_t, uint16_t, uint16_t>(plan, Select());
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
    case 2:
      return BroadcastKernel<uint16_t, uint16_t>(plan, SameBits());
    case 4:
      return BroadcastKernel<uint32_t, uint32_t>(plan, SameBits());
    default:
      return BroadcastKernel<uint64_t, uint64_t>(plan, SameBits());
  }
}

constexpr CudaKernelRow kRows[] = {
    {"Add", LowBinary<Add>}, {"AddN", MakeAddN},      {"Div", Binary<Div>},
    {"Expand", MakeExpand},  {"Max", LowBinary<Max>}, {"GreaterEqual", FloatBinary<GreaterEqual>},
    {"Mod", MakeMod},        {"Min", LowBinary<Min>}, {"Mul", LowBinary<Mul>},
    {"Sub", LowBinary<Sub>}, {"Where", MakeWhere},    {"Pow", FloatBinary<PowOrSquare>},
};

}  // namespace

absl::Span<const CudaKernelRow> BinaryKernels() { return kRows; }

}  // namespace ebb::device::cuda
