// Ops along one axis that find or count positions: TopK, ArgMax, ArgMin, CumSum.
#include <algorithm>
#include <numeric>
#include <type_traits>

#include "device/common/axis.h"
#include "device/common/dispatch.h"
#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

// By the type of input 0, in plain order.
template <class F>
absl::StatusOr<Kernel> ForInput(const Graph& graph, const Node& node, F make) {
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  return ForNumber(node, In(graph, node).type.dtype, make);
}

// Workspace: the positions of one row.
absl::StatusOr<Kernel> MakeTopK(const Graph& graph, const Node& node) {
  const Axis form = AxisOf(node, In(graph, node).type.shape);
  const int64_t k = node.attrs.Int("k", 1);
  const bool largest = node.attrs.Int("largest", 1) != 0;
  return ForInput(graph, node, [=](auto zero) {
    using T = decltype(zero);
    const Bytes workspace(form.size * static_cast<int64_t>(sizeof(int64_t)));
    return MakeKernel(
        [=](const KernelArgs& args) {
          auto* order = static_cast<int64_t*>(args.workspace);
          for (int64_t o = 0; o < form.outer; ++o) {
            for (int64_t i = 0; i < form.inner; ++i) {
              const T* x = InPtr<T>(args) + o * form.size * form.inner + i;
              std::iota(order, order + form.size, int64_t{0});
              std::partial_sort(order, order + k, order + form.size, [&](int64_t a, int64_t b) {
                const T va = x[a * form.inner], vb = x[b * form.inner];
                if (Before(va, vb, largest)) return true;
                return !Before(vb, va, largest) && a < b;
              });
              for (int64_t j = 0; j < k; ++j) {
                const int64_t at = (o * k + j) * form.inner + i;
                OutPtr<T>(args)[at] = x[order[j] * form.inner];
                OutPtr<int64_t>(args, 1)[at] = order[j];
              }
            }
          }
          return absl::OkStatus();
        },
        workspace);
  });
}

// Of equals the first, or the last.
template <bool kMax>
absl::StatusOr<Kernel> MakeArg(const Graph& graph, const Node& node) {
  const Axis form = AxisOf(node, In(graph, node).type.shape);
  const bool last = node.attrs.Int("last", 0) != 0;
  return ForInput(graph, node, [=](auto zero) {
    using T = decltype(zero);
    return MakeKernel([=](const KernelArgs& args) {
      for (int64_t o = 0; o < form.outer; ++o) {
        for (int64_t i = 0; i < form.inner; ++i) {
          const T* x = InPtr<T>(args) + o * form.size * form.inner + i;
          int64_t best = 0;
          for (int64_t a = 1; a < form.size; ++a) {
            const T value = x[a * form.inner], most = x[best * form.inner];
            if (last ? !Wins<kMax>(most, value) : Wins<kMax>(value, most)) best = a;
          }
          OutPtr<int64_t>(args)[o * form.inner + i] = best;
        }
      }
      return absl::OkStatus();
    });
  });
}

// y = x + before, element by element; exclusive: y = before + the x of the position before.
template <class T>
EBB_CLONES void AddRows(const T* x, const T* before, T* y, int64_t n) {
  using U = std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>;
  using Sum = typename U::type;
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) {
    y[i] = static_cast<T>(static_cast<Sum>(x[i]) + static_cast<Sum>(before[i]));
  }
}

// One line of contiguous elements: its sum is kept in double, or in 64 bits that wrap around.
template <class T>
void ScanLine(const T* x, T* y, int64_t n, bool exclusive, bool reverse) {
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  Sum sum = 0;
  for (int64_t step = 0; step < n; ++step) {
    const int64_t at = reverse ? n - 1 - step : step;
    const Sum value = static_cast<Sum>(x[at]);
    if (!exclusive) sum += value;
    y[at] = static_cast<T>(sum);
    if (exclusive) sum += value;
  }
}

absl::StatusOr<Kernel> MakeCumSum(const Graph& graph, const Node& node) {
  const Axis form = AxisOf(node, In(graph, node).type.shape);
  const bool exclusive = node.attrs.Int("exclusive", 0) != 0;
  const bool reverse = node.attrs.Int("reverse", 0) != 0;
  return ForInput(graph, node, [=](auto zero) {
    using T = decltype(zero);
    return MakeKernel([=](const KernelArgs& args) {
      for (int64_t o = 0; o < form.outer; ++o) {
        const T* x = InPtr<T>(args) + o * form.size * form.inner;
        T* y = OutPtr<T>(args) + o * form.size * form.inner;
        if (form.inner == 1) {
          ScanLine(x, y, form.size, exclusive, reverse);
          continue;
        }
        for (int64_t step = 0; step < form.size; ++step) {
          const int64_t at = (reverse ? form.size - 1 - step : step) * form.inner;
          const int64_t before = at + (reverse ? form.inner : -form.inner);
          if (step == 0 && exclusive) {
            std::fill_n(y + at, form.inner, T(0));
          } else if (step == 0) {
            std::copy_n(x + at, form.inner, y + at);
          } else {
            AddRows(x + (exclusive ? before : at), y + before, y + at, form.inner);
          }
        }
      }
      return absl::OkStatus();
    });
  });
}

constexpr KernelRow kRows[] = {{"TopK", MakeTopK},
                               {"ArgMax", MakeArg<true>},
                               {"ArgMin", MakeArg<false>},
                               {"CumSum", MakeCumSum}};

}  // namespace

absl::Span<const KernelRow> ChoiceKernels() { return kRows; }

}  // namespace ebb::device::cpu
