// Reductions over any set of dimensions, and the gradient of a product.
#include <limits>

#include "base/status.h"
#include "device/common/dispatch.h"
#include "device/common/reduction.h"
#include "device/cuda/launch.h"
#include "device/cuda/lines.h"
#include "device/math/sums.h"

namespace ebb::device::cuda {
namespace {

// Neighbouring threads read neighbouring elements: of one sum, or of neighbouring sums.
SumsBy By(const Reduction& plan) {
  return plan.inner_summed && plan.summed.count > kTinyRow ? SumsBy::kRows : SumsBy::kColumns;
}

template <class T>
struct SumOf {
  using Sum = math::FloatSum;
  EBB_INLINE Sum Zero() const { return {0, 0}; }
  EBB_INLINE void Add(Sum& sum, int64_t key, int64_t i) const {
    sum.Add(Read(x[plan.kept.Offset(key) + plan.summed.Offset(i)]));
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const { sum.Join(other); }
  EBB_INLINE void Done(int64_t key, const Sum& sum) const {
    y[key] = Stored<T>(sum.Wide() * scale);
  }
  Reduction plan;
  const T* x;
  T* y;
  double scale;
};

// How the elements of one result are folded: in A, from the unit, which no element is beyond.
template <class T>
struct Largest {  // NaN wins, here and below
  using A = T;
  static constexpr A kUnit = std::numeric_limits<T>::has_infinity
                                 ? -std::numeric_limits<T>::infinity()
                                 : std::numeric_limits<T>::lowest();
  static constexpr A kEmpty = 0;
  static EBB_INLINE A Of(A a, A b) { return b > a || b != b ? b : a; }
};
template <class T>
struct Smallest {
  using A = T;
  static constexpr A kUnit = std::numeric_limits<T>::has_infinity
                                 ? std::numeric_limits<T>::infinity()
                                 : std::numeric_limits<T>::max();
  static constexpr A kEmpty = 0;
  static EBB_INLINE A Of(A a, A b) { return b < a || b != b ? b : a; }
};
template <class T>
struct IntegerSum {  // integers wrap around
  using A = uint64_t;
  static constexpr A kUnit = 0;
  static constexpr A kEmpty = 0;
  static EBB_INLINE A Of(A a, A b) { return a + b; }
};
// In double, whose range a product of floats in any order seldom leaves.
template <class T>
struct Product {
  using A = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  static constexpr A kUnit = 1;
  static constexpr A kEmpty = 1;
  static EBB_INLINE A Of(A a, A b) { return a * b; }
};

template <class T, class Fold>
struct FoldOf {
  using A = typename Fold::A;
  struct Sum {
    A value;
  };
  EBB_INLINE Sum Zero() const { return {Fold::kUnit}; }
  EBB_INLINE void Add(Sum& sum, int64_t key, int64_t i) const {
    const T value = x[plan.kept.Offset(key) + plan.summed.Offset(i)];
    sum.value = Fold::Of(sum.value, static_cast<A>(value));
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const {
    sum.value = Fold::Of(sum.value, other.value);
  }
  EBB_INLINE void Done(int64_t key, const Sum& sum) const {
    y[key] = static_cast<T>(plan.summed.count == 0 ? Fold::kEmpty : sum.value);
  }
  Reduction plan;
  const T* x;
  T* y;
};

template <class T>
CudaKernel SumBy(const Reduction& plan, double scale) {
  return MakeCudaKernel(
      [plan, scale](const Launch& at, const KernelArgs& args) {
        return Sums(at, By(plan), plan.kept.count, plan.summed.count,
                    SumOf<T>{plan, InPtr<T>(args), OutPtr<T>(args), scale}, args.workspace);
      },
      SumsWorkspace<SumOf<T>>(By(plan), plan.kept.count, plan.summed.count));
}

absl::StatusOr<CudaKernel> MakeSum(const Graph& graph, const Node& node) {
  EBB_ASSIGN_OR_RETURN(const Reduction plan, ReductionOf(graph, node));
  const double scale =
      node.op->name == "ReduceMean" ? 1.0 / static_cast<double>(plan.summed.count) : 1.0;
  return ForFloat(node, In(graph, node).type.dtype,
                  [&](auto zero) { return SumBy<decltype(zero)>(plan, scale); });
}

template <class T, template <class> class Fold>
CudaKernel FoldBy(const Reduction& plan) {
  using F = FoldOf<T, Fold<T>>;
  return MakeCudaKernel(
      [plan](const Launch& at, const KernelArgs& args) {
        return Sums(at, By(plan), plan.kept.count, plan.summed.count,
                    F{plan, InPtr<T>(args), OutPtr<T>(args)}, args.workspace);
      },
      SumsWorkspace<F>(By(plan), plan.kept.count, plan.summed.count));
}

template <template <class> class Fold>
absl::StatusOr<CudaKernel> MakeFold(const Graph& graph, const Node& node) {
  EBB_ASSIGN_OR_RETURN(const Reduction plan, ReductionOf(graph, node));
  return ForNumber(node, In(graph, node).type.dtype,
                   [&](auto zero) { return FoldBy<decltype(zero), Fold>(plan); });
}

absl::StatusOr<CudaKernel> MakeReduceSum(const Graph& graph, const Node& node) {
  const DType dtype = In(graph, node).type.dtype;
  return graph::IsFloat(dtype) ? MakeSum(graph, node) : MakeFold<IntegerSum>(graph, node);
}

// dx = dy times the product of the others. A fold's zeros are counted apart, so that the product of
// the others is exact where there is one.
struct ProductGradient {
  struct Sum {
    double product;  // of what is not 0
    int64_t zeros;
  };
  static constexpr bool kEach = true;
  EBB_INLINE int64_t Offset(int64_t key, int64_t i) const {
    return plan.kept.Offset(key) + plan.summed.Offset(i);
  }
  EBB_INLINE Sum Zero() const { return {1, 0}; }
  EBB_INLINE void Add(Sum& sum, int64_t key, int64_t i) const {
    const float v = x[Offset(key, i)];
    sum.zeros += v == 0.0f ? 1 : 0;
    sum.product *= v == 0.0f ? 1.0 : static_cast<double>(v);
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const {
    sum.zeros += other.zeros;
    sum.product *= other.product;
  }
  EBB_INLINE void Done(int64_t, const Sum&) const {}
  EBB_INLINE void Each(int64_t key, int64_t i, const Sum& sum) const {
    const int64_t at = Offset(key, i);
    const float v = x[at];
    double others = sum.zeros == 0 ? sum.product / static_cast<double>(v) : 0.0;
    if (sum.zeros == 1 && v == 0.0f) others = sum.product;
    dx[at] = static_cast<float>(static_cast<double>(dy[key]) * others);
  }
  Reduction plan;
  const float* dy;
  const float* x;
  float* dx;
};

absl::StatusOr<CudaKernel> MakeProductGradient(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const Shape& x = Out(graph, node).type.shape;
  bool flags[kMaxRank] = {};
  for (const int64_t axis : node.attrs.Ints("axes")) flags[axis] = true;
  const Reduction plan = MakeReduction(x, absl::MakeConstSpan(flags, x.size()));
  return MakeCudaKernel([plan](const Launch& at, const KernelArgs& args) {
    return Lines(
        at, By(plan), plan.kept.count, plan.summed.count,
        ProductGradient{plan, InPtr<float>(args, 0), InPtr<float>(args, 1), OutPtr<float>(args)});
  });
}

constexpr CudaKernelRow kRows[] = {
    {"ReduceMax", MakeFold<Largest>},
    {"ReduceMean", MakeSum},
    {"ReduceMin", MakeFold<Smallest>},
    {"ReduceProd", MakeFold<Product>},
    {"ReduceProdGrad", MakeProductGradient},
    {"ReduceSum", MakeReduceSum},
    {"SumTo", MakeSum},
};

}  // namespace

absl::Span<const CudaKernelRow> ReduceKernels() { return kRows; }

}  // namespace ebb::device::cuda
