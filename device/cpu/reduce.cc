// Reductions: ReduceSum, ReduceMean, ReduceMax, ReduceMin and SumTo. Sums run in float over at most
// 2048 elements a lane and in double over those blocks, always in the same order.
#include <algorithm>
#include <functional>

#include "device/common/dispatch.h"
#include "device/common/reduction.h"
#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

// Walks all positions of `dims` but its last one in memory order: f(offset).
class Walk {
 public:
  Walk(const Reduction::Dims& dims, int skip_last) : dims_(dims), rank_(dims.rank - skip_last) {
    for (int d = 0; d < rank_; ++d) count_ *= dims.dim[d];
  }
  int64_t count() const { return count_; }
  int64_t offset() const { return offset_; }
  void Next() {
    for (int d = rank_ - 1; d >= 0; --d) {
      offset_ += dims_.stride[d];
      if (++at_[d] < dims_.dim[d]) return;
      offset_ -= dims_.stride[d] * dims_.dim[d];
      at_[d] = 0;
    }
  }

 private:
  const Reduction::Dims& dims_;
  int rank_;
  int64_t count_ = 1;
  int64_t offset_ = 0;
  std::array<int64_t, kMaxRank> at_{};
};

EBB_CLONES double RowSum(const float* x, int64_t n) {
  return BlockedSum(n, [x](int64_t i) { return x[i]; });
}

// sums[0..width) += the rows x, x + stride, ... of a block.
EBB_CLONES void AddRows(const float* x, int64_t stride, int64_t rows, int64_t width, float* sums) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * stride;
    EBB_IVDEP
    for (int64_t c = 0; c < width; ++c) sums[c] += row[c];
  }
}

EBB_CLONES void Flush(float* sums, double* totals, int64_t width) {
  EBB_IVDEP
  for (int64_t c = 0; c < width; ++c) {
    totals[c] += static_cast<double>(sums[c]);
    sums[c] = 0;
  }
}

constexpr int64_t kColumns = 256;
constexpr int64_t kBlockRows = 128;

// The last kept dimension is contiguous: sums of whole rows of columns, a strip at a time.
void SumColumns(const Reduction& plan, const float* x, float* y, double scale) {
  const int64_t width = plan.kept.rank > 0 ? int64_t{plan.kept.dim[plan.kept.rank - 1]} : 1;
  const bool has_rows = plan.summed.rank > 0;
  const int64_t rows = has_rows ? int64_t{plan.summed.dim[plan.summed.rank - 1]} : 1;
  const int64_t stride = has_rows ? plan.summed.stride[plan.summed.rank - 1] : 0;
  Walk kept(plan.kept, 1);
  for (int64_t k = 0; k < kept.count(); ++k, kept.Next()) {
    for (int64_t c0 = 0; c0 < width; c0 += kColumns) {
      const int64_t strip = std::min(kColumns, width - c0);
      float sums[kColumns] = {};
      double totals[kColumns] = {};
      int64_t pending = 0;
      Walk outer(plan.summed, has_rows ? 1 : 0);
      for (int64_t s = 0; s < outer.count(); ++s, outer.Next()) {
        const float* base = x + kept.offset() + outer.offset() + c0;
        for (int64_t r0 = 0; r0 < rows;) {
          const int64_t block = std::min(kBlockRows - pending, rows - r0);
          AddRows(base + r0 * stride, stride, block, strip, sums);
          r0 += block;
          pending += block;
          if (pending == kBlockRows) {
            Flush(sums, totals, strip);
            pending = 0;
          }
        }
      }
      Flush(sums, totals, strip);
      float* out = y + k * width + c0;
      for (int64_t c = 0; c < strip; ++c) out[c] = static_cast<float>(totals[c] * scale);
    }
  }
}

void SumRows(const Reduction& plan, const float* x, float* y, double scale) {
  const int64_t width = plan.summed.dim[plan.summed.rank - 1];
  Walk kept(plan.kept, 0);
  for (int64_t k = 0; k < kept.count(); ++k, kept.Next()) {
    double total = 0;
    Walk outer(plan.summed, 1);
    for (int64_t s = 0; s < outer.count(); ++s, outer.Next()) {
      total += RowSum(x + kept.offset() + outer.offset(), width);
    }
    y[k] = static_cast<float>(total * scale);
  }
}

// y (kept dimensions, dense) = scale times the sums.
void SumOver(const Reduction& plan, const float* x, float* y, double scale) {
  if (plan.summed.count == 0) {
    std::fill_n(y, plan.kept.count, static_cast<float>(0.0 * scale));
  } else if (plan.kept.count == 0) {
    return;
  } else if (plan.inner_summed) {
    SumRows(plan, x, y, scale);
  } else {
    SumColumns(plan, x, y, scale);
  }
}

absl::StatusOr<Kernel> MakeSum(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_ASSIGN_OR_RETURN(const Reduction plan, ReductionOf(graph, node));
  const double scale =
      node.op->name == "ReduceMean" ? 1.0 / static_cast<double>(plan.summed.count) : 1.0;
  return MakeKernel([plan, scale](const KernelArgs& args) {
    SumOver(plan, InPtr<float>(args), OutPtr<float>(args), scale);
    return absl::OkStatus();
  });
}

// y = the fold of the elements in order: the first as it is, then f(fold, x). A is what it is
// computed in; without elements it is `empty`.
template <class T, class A, class F>
Kernel FoldOf(const Reduction& plan, A empty) {
  return MakeKernel([plan, empty](const KernelArgs& args) {
    Walk kept(plan.kept, 0);
    for (int64_t k = 0; k < kept.count(); ++k, kept.Next()) {
      A fold = empty;
      Walk summed(plan.summed, 0);
      for (int64_t s = 0; s < summed.count(); ++s, summed.Next()) {
        const A x = static_cast<A>(InPtr<T>(args)[kept.offset() + summed.offset()]);
        fold = s == 0 ? x : F()(fold, x);
      }
      OutPtr<T>(args)[k] = static_cast<T>(fold);
    }
    return absl::OkStatus();
  });
}

struct Larger {  // NaN wins, here and below
  template <class T>
  EBB_INLINE T operator()(T a, T b) const {
    return b > a || b != b ? b : a;
  }
};
struct Smaller {
  template <class T>
  EBB_INLINE T operator()(T a, T b) const {
    return b < a || b != b ? b : a;
  }
};

template <class F>
absl::StatusOr<Kernel> MakeExtreme(const Graph& graph, const Node& node) {
  EBB_ASSIGN_OR_RETURN(const Reduction plan, ReductionOf(graph, node));
  return ForNumber(node, In(graph, node).type.dtype, [&](auto zero) {
    using T = decltype(zero);
    return FoldOf<T, T, F>(plan, zero);
  });
}

// Integers wrap around.
template <class F>
absl::StatusOr<Kernel> IntegerFold(const Graph& graph, const Node& node, uint64_t empty) {
  EBB_ASSIGN_OR_RETURN(const Reduction plan, ReductionOf(graph, node));
  if (In(graph, node).type.dtype == DType::kI32) return FoldOf<int32_t, uint64_t, F>(plan, empty);
  return FoldOf<int64_t, uint64_t, F>(plan, empty);
}

absl::StatusOr<Kernel> MakeReduceSum(const Graph& graph, const Node& node) {
  if (graph::IsFloat(In(graph, node).type.dtype)) return MakeSum(graph, node);
  return IntegerFold<std::plus<>>(graph, node, 0);
}

absl::StatusOr<Kernel> MakeProd(const Graph& graph, const Node& node) {
  if (!graph::IsFloat(In(graph, node).type.dtype)) {
    return IntegerFold<std::multiplies<>>(graph, node, 1);
  }
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_ASSIGN_OR_RETURN(const Reduction plan, ReductionOf(graph, node));
  return FoldOf<float, double, std::multiplies<>>(plan, 1.0);
}

// dx = dy times the product of the others. A fold's zeros are counted apart, so that the product of
// the others is exact where there is one.
absl::StatusOr<Kernel> MakeProdGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const Shape& x = Out(graph, node).type.shape;
  bool flags[kMaxRank] = {};
  for (const int64_t axis : node.attrs.Ints("axes")) flags[axis] = true;
  const Reduction plan = MakeReduction(x, absl::MakeConstSpan(flags, x.size()));
  return MakeKernel([plan](const KernelArgs& args) {
    Walk kept(plan.kept, 0);
    for (int64_t k = 0; k < kept.count(); ++k, kept.Next()) {
      const float* in = InPtr<float>(args, 1) + kept.offset();
      float* out = OutPtr<float>(args) + kept.offset();
      double product = static_cast<double>(InPtr<float>(args)[k]);
      int64_t zeros = 0;
      Walk one(plan.summed, 0);
      for (int64_t s = 0; s < one.count(); ++s, one.Next()) {
        const float v = in[one.offset()];
        if (v == 0.0f) ++zeros;
        if (v != 0.0f) product *= static_cast<double>(v);
      }
      Walk two(plan.summed, 0);
      for (int64_t s = 0; s < two.count(); ++s, two.Next()) {
        const float v = in[two.offset()];
        double others = zeros == 0 ? product / static_cast<double>(v) : 0.0;
        if (zeros == 1 && v == 0.0f) others = product;
        out[two.offset()] = static_cast<float>(others);
      }
    }
    return absl::OkStatus();
  });
}

constexpr KernelRow kRows[] = {
    {"ReduceMax", MakeExtreme<Larger>},
    {"ReduceMean", MakeSum},
    {"ReduceMin", MakeExtreme<Smaller>},
    {"ReduceProd", MakeProd},
    {"ReduceSum", MakeReduceSum},
    {"ReduceProdGrad", MakeProdGrad},
    {"SumTo", MakeSum},
};

}  // namespace

absl::Span<const KernelRow> ReduceKernels() { return kRows; }

}  // namespace ebb::device::cpu
