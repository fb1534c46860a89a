// Reductions over axes. A reduced tensor is the input with ones at the reduced axes, so its strides
// are those of broadcasting it back.
#include <functional>
#include <type_traits>

#include "device/ref/common.h"
#include "device/ref/kernels.h"

namespace ebb::device::ref {
namespace {

// Integers are folded as integers, which wrap around.
template <class T>
using Fold = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

struct Plan {
  Shape from;
  std::array<Shape, 1> strides;
  int64_t n;  // of results
};
Plan PlanOf(const Node& node, const Shape& from) {
  Shape kept = from;
  for (int64_t axis : node.attrs.Ints("axes")) kept[static_cast<size_t>(axis)] = 1;
  return {from, {BroadcastStrides(kept, from)}, NumElements(kept)};
}

// y = finish(fold of combine over x); the first element of each fold is taken as it is, and where
// there is none the fold is `empty`.
template <class Combine, class Finish>
absl::StatusOr<Kernel> Reduce(const Graph& graph, const Node& node, int empty, Combine combine,
                              Finish finish) {
  const Plan plan = PlanOf(node, InType(graph, node, 0).shape);
  return ForNumber(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    std::vector<Fold<T>> folds(static_cast<size_t>(plan.n), Fold<T>(empty));
    std::vector<bool> begun(folds.size());
    Walk(plan.from, plan.strides, [&](int64_t i, const std::array<int64_t, 1>& at) {
      const auto k = static_cast<size_t>(at[0]);
      const auto x = static_cast<Fold<T>>(In<T>(args, 0)[i]);
      folds[k] = begun[k] ? combine(folds[k], x) : x;
      begun[k] = true;
    });
    for (size_t i = 0; i < folds.size(); ++i) Out<T>(args)[i] = static_cast<T>(finish(folds[i]));
  });
}

template <class F>
int64_t Wrapping(int64_t a, int64_t b, F f) {
  return static_cast<int64_t>(f(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
}
struct Plus {
  double operator()(double a, double b) const { return a + b; }
  int64_t operator()(int64_t a, int64_t b) const { return Wrapping(a, b, std::plus<>()); }
};
struct Times {
  double operator()(double a, double b) const { return a * b; }
  int64_t operator()(int64_t a, int64_t b) const { return Wrapping(a, b, std::multiplies<>()); }
};
constexpr auto kSame = [](auto a) { return a; };

absl::StatusOr<Kernel> ReduceSum(const Graph& g, const Node& n) {
  return Reduce(g, n, 0, Plus(), kSame);
}
absl::StatusOr<Kernel> ReduceMean(const Graph& g, const Node& n) {
  double count = 1;
  for (int64_t axis : n.attrs.Ints("axes")) {
    count *= static_cast<double>(InType(g, n, 0).shape[static_cast<size_t>(axis)]);
  }
  return Reduce(g, n, 0, Plus(), [count](auto sum) { return static_cast<double>(sum) / count; });
}
absl::StatusOr<Kernel> ReduceMax(const Graph& g, const Node& n) {
  return Reduce(
      g, n, 0, [](auto a, auto b) { return b > a || b != b ? b : a; }, kSame);
}
absl::StatusOr<Kernel> ReduceMin(const Graph& g, const Node& n) {
  return Reduce(
      g, n, 0, [](auto a, auto b) { return b < a || b != b ? b : a; }, kSame);
}
absl::StatusOr<Kernel> ReduceProd(const Graph& g, const Node& n) {
  return Reduce(g, n, 1, Times(), kSame);
}

// dx[i] = dy times the product of all others. The zeros of a fold are counted apart, so that the
// product of the others is exact where there is one.
absl::StatusOr<Kernel> ReduceProdGrad(const Graph& graph, const Node& node) {
  const Plan plan = PlanOf(node, OutType(graph, node).shape);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const T* x = In<T>(args, 1);
    std::vector<double> products(static_cast<size_t>(plan.n), 1);  // of what is not 0
    std::vector<int64_t> zeros(products.size(), 0);
    Walk(plan.from, plan.strides, [&](int64_t i, const std::array<int64_t, 1>& at) {
      const auto k = static_cast<size_t>(at[0]);
      x[i] == 0 ? static_cast<void>(++zeros[k]) : static_cast<void>(products[k] *= x[i]);
    });
    Walk(plan.from, plan.strides, [&](int64_t i, const std::array<int64_t, 1>& at) {
      const auto k = static_cast<size_t>(at[0]);
      double others = 0;
      if (zeros[k] == 0) others = products[k] / x[i];
      if (zeros[k] == 1 && x[i] == 0) others = products[k];
      Out<T>(args)[i] = static_cast<T>(In<T>(args, 0)[k] * others);
    });
  });
}

}  // namespace

absl::Span<const KernelRow> Reduce() {
  static constexpr KernelRow kRows[] = {
      {"ReduceSum", ReduceSum}, {"ReduceMean", ReduceMean}, {"ReduceMax", ReduceMax},
      {"ReduceMin", ReduceMin}, {"ReduceProd", ReduceProd}, {"ReduceProdGrad", ReduceProdGrad}};
  return kRows;
}

}  // namespace ebb::device::ref
