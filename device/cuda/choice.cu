// Ops along one axis that find or count positions: TopK, ArgMax, ArgMin, CumSum.
#include <cmath>
#include <type_traits>

#include "base/status.h"
#include "device/common/axis.h"
#include "device/common/dispatch.h"
#include "device/cuda/launch.h"
#include "device/cuda/strides.h"
#include "device/cuda/top_k.h"

namespace ebb::device::cuda {
namespace {

// By the type of input 0, in plain order.
template <class F>
absl::StatusOr<CudaKernel> ForInput(const Graph& graph, const Node& node, F make) {
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  return ForNumber(node, In(graph, node).type.dtype, make);
}

absl::StatusOr<CudaKernel> MakeTopK(const Graph& graph, const Node& node) {
  const Axis form = AxisOf(node, In(graph, node).type.shape);
  if (form.size >= INT32_MAX) {
    return absl::UnimplementedError("TopK on cuda takes fewer than 2^31 elements along its axis");
  }
  const int64_t k = node.attrs.Int("k", 1);
  const bool largest = node.attrs.Int("largest", 1) != 0;
  return ForInput(graph, node, [=](auto zero) {
    using T = decltype(zero);
    return MakeCudaKernel(
        [=](const Launch& at, const KernelArgs& args) {
          const TopKLines<T> lines{InPtr<T>(args), form.size,
                                   Divisor(std::max<int64_t>(form.inner, 1)), k, largest};
          return TopK(at, form.outer * form.inner, lines, OutPtr<T>(args), OutPtr<int64_t>(args, 1),
                      args.workspace);
        },
        TopKWorkspace(form.outer * form.inner, form.size, k));
  });
}

// Of equals the first, or the last.
template <class T, bool kMax>
struct Extreme {
  struct Sum {
    int64_t position;  // -1: none yet
    T value;
  };
  EBB_INLINE Sum Zero() const { return {-1, T(0)}; }
  EBB_INLINE void Add(Sum& sum, int64_t key, int64_t a) const {
    const auto [o, i] = Divide(key, inner);
    Join(sum, {a, x[(o * size + a) * inner + i]});
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const {
    if (other.position < 0) return;
    const bool nearer = last == (other.position > sum.position);
    if (sum.position < 0 || Wins<kMax>(other.value, sum.value) ||
        (nearer && !Wins<kMax>(sum.value, other.value))) {
      sum = other;
    }
  }
  EBB_INLINE void Done(int64_t key, const Sum& sum) const { y[key] = sum.position; }

  const T* x;
  int64_t* y;
  int64_t size;
  Divisor inner;
  bool last;
};

template <bool kMax>
absl::StatusOr<CudaKernel> MakeArg(const Graph& graph, const Node& node) {
  const Axis form = AxisOf(node, In(graph, node).type.shape);
  const bool last = node.attrs.Int("last", 0) != 0;
  const SumsBy by = form.inner == 1 ? SumsBy::kRows : SumsBy::kColumns;
  const int64_t keys = form.outer * form.inner;
  return ForInput(graph, node, [=](auto zero) {
    using T = decltype(zero);
    return MakeCudaKernel(
        [=](const Launch& at, const KernelArgs& args) {
          const Divisor inner(std::max<int64_t>(form.inner, 1));
          return Sums(
              at, by, keys, form.size,
              Extreme<T, kMax>{InPtr<T>(args), OutPtr<int64_t>(args), form.size, inner, last},
              args.workspace);
        },
        SumsWorkspace<Extreme<T, kMax>>(by, keys, form.size));
  });
}

// Lines are cut into chunks: a thread sums a chunk, another adds up the chunks of a line, then each
// chunk goes on from what is before it. Sums are kept in double, or in 64 bits that wrap around.
template <class T>
struct Scan {
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;

  // f(place of an element of a chunk) in the order of summation.
  template <class F>
  EBB_INLINE void ForChunk(int64_t at, F f) const {
    const auto [rest, i] = Divide(at, inner);
    const auto [o, c] = Divide(rest, chunks);
    const int64_t end = (c + 1) * chunk < size ? (c + 1) * chunk : size;
    for (int64_t step = c * chunk; step < end; ++step) {
      f((o * size + (reverse ? size - 1 - step : step)) * inner + i);
    }
  }

  const T* x;
  T* y;
  Sum* sums;  // of chunks [outer, chunks, inner]; then of what is before them
  int64_t size, chunk;
  Divisor chunks, inner;
  bool exclusive, reverse;
};

template <class T>
struct SumChunks {
  EBB_INLINE void operator()(int64_t at) const {
    typename Scan<T>::Sum sum = 0;
    const T* const x = scan.x;
    scan.ForChunk(at, [&](int64_t place) { sum += static_cast<typename Scan<T>::Sum>(x[place]); });
    scan.sums[at] = sum;
  }
  Scan<T> scan;
};

template <class T>
struct AddUpChunks {
  EBB_INLINE void operator()(int64_t line) const {
    const auto [o, i] = Divide(line, scan.inner);
    typename Scan<T>::Sum before = 0;
    for (int64_t c = 0; c < scan.chunks; ++c) {
      auto& sum = scan.sums[(o * scan.chunks + c) * scan.inner + i];
      const auto own = sum;
      sum = before;
      before += own;
    }
  }
  Scan<T> scan;
};

template <class T>
struct ScanChunks {
  EBB_INLINE void operator()(int64_t at) const {
    auto sum = scan.sums[at];
    scan.ForChunk(at, [&](int64_t place) {
      const auto own = static_cast<typename Scan<T>::Sum>(scan.x[place]);
      scan.y[place] = static_cast<T>(scan.exclusive ? sum : sum + own);
      sum += own;
    });
  }
  Scan<T> scan;
};

absl::StatusOr<CudaKernel> MakeCumSum(const Graph& graph, const Node& node) {
  const Axis form = AxisOf(node, In(graph, node).type.shape);
  const bool exclusive = node.attrs.Int("exclusive", 0) != 0;
  const bool reverse = node.attrs.Int("reverse", 0) != 0;
  const auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(form.size)));
  const int64_t chunk = std::max<int64_t>(root, 32);
  const int64_t chunks = std::max<int64_t>((form.size + chunk - 1) / chunk, 1);
  const int64_t lines = form.outer * form.inner;
  return ForInput(graph, node, [=](auto zero) {
    using T = decltype(zero);
    using Sum = typename Scan<T>::Sum;
    return MakeCudaKernel(
        [=](const Launch& at, const KernelArgs& args) {
          if (lines == 0) return absl::OkStatus();
          const Scan<T> scan{
              InPtr<T>(args),      OutPtr<T>(args), static_cast<Sum*>(args.workspace),
              form.size,           chunk,           Divisor(chunks),
              Divisor(form.inner), exclusive,       reverse};
          EBB_RETURN_IF_ERROR(ForEach(at, lines * chunks, SumChunks<T>{scan}));
          EBB_RETURN_IF_ERROR(ForEach(at, lines, AddUpChunks<T>{scan}));
          return ForEach(at, lines * chunks, ScanChunks<T>{scan});
        },
        Bytes(lines * chunks * static_cast<int64_t>(sizeof(Sum))));
  });
}

constexpr CudaKernelRow kRows[] = {{"TopK", MakeTopK},
                                   {"ArgMax", MakeArg<true>},
                                   {"ArgMin", MakeArg<false>},
                                   {"CumSum", MakeCumSum}};

}  // namespace

absl::Span<const CudaKernelRow> ChoiceKernels() { return kRows; }

}  // namespace ebb::device::cuda
