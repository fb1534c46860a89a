// Reductions over axes. A reduced tensor is the input with ones at the reduced axes, so its strides
// are those of broadcasting it back.
#include <algorithm>
#include <limits>

#include "device/ref/common.h"
#include "device/ref/kernels.h"

namespace ebb::device::ref {
namespace {

// y = finish(fold of combine over x, starting with `start`)
template <class Combine, class Finish>
absl::StatusOr<Kernel> Reduce(const Graph& graph, const Node& node, double start, Combine combine,
                              Finish finish) {
  const Shape from = InType(graph, node, 0).shape;
  Shape kept = from;
  for (int64_t axis : node.attrs.Ints("axes")) kept[static_cast<size_t>(axis)] = 1;
  const std::array<Shape, 1> strides = {BroadcastStrides(kept, from)};
  const int64_t n = NumElements(kept);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    std::vector<double> folds(static_cast<size_t>(n), start);
    Walk(from, strides, [&](int64_t i, const std::array<int64_t, 1>& at) {
      double& fold = folds[static_cast<size_t>(at[0])];
      fold = combine(fold, static_cast<double>(In<T>(args, 0)[i]));
    });
    for (size_t i = 0; i < folds.size(); ++i) Out<T>(args)[i] = static_cast<T>(finish(folds[i]));
  });
}

double Plus(double a, double b) { return a + b; }
double Same(double a) { return a; }
constexpr double kInfinity = std::numeric_limits<double>::infinity();

absl::StatusOr<Kernel> ReduceSum(const Graph& g, const Node& n) {
  return Reduce(g, n, 0, Plus, Same);
}
absl::StatusOr<Kernel> ReduceMean(const Graph& g, const Node& n) {
  double count = 1;
  for (int64_t axis : n.attrs.Ints("axes")) {
    count *= static_cast<double>(InType(g, n, 0).shape[static_cast<size_t>(axis)]);
  }
  return Reduce(g, n, 0, Plus, [count](double sum) { return sum / count; });
}
absl::StatusOr<Kernel> ReduceMax(const Graph& g, const Node& n) {
  return Reduce(
      g, n, -kInfinity, [](double a, double b) { return b > a || b != b ? b : a; }, Same);
}
absl::StatusOr<Kernel> ReduceMin(const Graph& g, const Node& n) {
  return Reduce(
      g, n, kInfinity, [](double a, double b) { return b < a || b != b ? b : a; }, Same);
}

}  // namespace

absl::Span<const KernelRow> Reduce() {
  static constexpr KernelRow kRows[] = {{"ReduceSum", ReduceSum},
                                        {"ReduceMean", ReduceMean},
                                        {"ReduceMax", ReduceMax},
                                        {"ReduceMin", ReduceMin}};
  return kRows;
}

}  // namespace ebb::device::ref
