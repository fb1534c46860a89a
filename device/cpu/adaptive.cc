// Optimizer updates that divide by a history of squares: Adagrad, RMSprop, and row-wise Adagrad,
// which visits whole tables or only the rows that were looked up.
#include "device/cpu/adaptive.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "device/cpu/average.h"
#include "device/cpu/common.h"
#include "device/cpu/vec.h"
#include "device/math/update.h"

namespace ebb::device::cpu {
namespace {

absl::Status RequireF32Param(const Graph& graph, const Node& node) {
  const DType dtype = In(graph, node, 0).type.dtype;
  return dtype == DType::kF32 ? absl::OkStatus() : BadType(node, dtype);
}

EBB_CLONES void AdagradStep(math::Adagrad rule, math::Adagrad::Now now, float* p, const float* g,
                            float* s, int64_t n) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) rule(now, p[i], g[i], s[i]);
}

absl::StatusOr<Kernel> MakeAdagrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32Param(graph, node));
  const int64_t n = NumElements(In(graph, node, 0).type.shape);
  const math::Adagrad rule(node.attrs);
  const Average average(graph, node, 4);
  return MakeKernel([=](const KernelArgs& args) {
    AdagradStep(rule, rule.At(InPtr<double>(args, 2)), MutablePtr<float>(args, 0),
                InPtr<float>(args, 1), MutablePtr<float>(args, 3), n);
    average.Move(args);
    return absl::OkStatus();
  });
}

template <bool kMomentum, bool kCentered>
EBB_CLONES void RmsPropStep(math::RmsProp rule, math::RmsProp::Now now, float* p, const float* g,
                            float* s, float* velocity, float* mean, int64_t n) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) {
    float none = 0;
    rule.Step<kMomentum, kCentered>(now, p[i], g[i], s[i], kMomentum ? velocity[i] : none,
                                    kCentered ? mean[i] : none);
  }
}

absl::StatusOr<Kernel> MakeRmsProp(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32Param(graph, node));
  const int64_t n = NumElements(In(graph, node, 0).type.shape);
  const math::RmsProp rule(node.attrs);
  const bool momentum = HasInput(node, 4), centered = HasInput(node, 5);
  const auto step = momentum ? (centered ? RmsPropStep<true, true> : RmsPropStep<true, false>)
                             : (centered ? RmsPropStep<false, true> : RmsPropStep<false, false>);
  const Average average(graph, node, 6);
  return MakeKernel([=](const KernelArgs& args) {
    step(rule, rule.At(InPtr<double>(args, 2)), MutablePtr<float>(args, 0), InPtr<float>(args, 1),
         MutablePtr<float>(args, 3), MutablePtr<float>(args, 4), MutablePtr<float>(args, 5), n);
    average.Move(args);
    return absl::OkStatus();
  });
}

// One row of a table: its sum grows by the mean of its gradient's squares.
EBB_CLONES void RowStep(float* p, const float* g, float* sum, int64_t width,
                        math::RowwiseAdagrad rule, float rate) {
  const double squares = BlockedSum(width, [p, g, rule](int64_t i) {
    const float d = rule.Gradient(p[i], g[i]);
    return d * d;
  });
  const float now = *sum + static_cast<float>(squares / static_cast<double>(width));
  *sum = now;
  const float step = rule.Step(rate, now);
  EBB_IVDEP
  for (int64_t i = 0; i < width; ++i) p[i] -= step * rule.Gradient(p[i], g[i]);
}

struct Rowwise {
  Rowwise(const Graph& graph, const Node& node)
      : rows(In(graph, node, 0).type.shape[0]),
        width(NumElements(In(graph, node, 0).type.shape) / std::max<int64_t>(rows, 1)),
        rule(node.attrs) {}
  float Rate(const KernelArgs& args) const { return rule.Rate(InPtr<double>(args, 2)); }

  int64_t rows, width;
  math::RowwiseAdagrad rule;
};

absl::StatusOr<Kernel> MakeRowwiseAdagrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32Param(graph, node));
  const Rowwise table(graph, node);
  const bool sparse = node.attrs.Int("sparse", 0) != 0;
  const Average average(graph, node, 4);
  return MakeKernel([=](const KernelArgs& args) {
    const float rate = table.Rate(args);
    for (int64_t r = 0; r < table.rows && table.width > 0; ++r) {
      const float* g = InPtr<float>(args, 1) + r * table.width;
      if (sparse && std::all_of(g, g + table.width, [](float d) { return d == 0; })) continue;
      RowStep(MutablePtr<float>(args, 0) + r * table.width, g, MutablePtr<float>(args, 3) + r,
              table.width, table.rule, rate);
    }
    average.Move(args);
    return absl::OkStatus();
  });
}

EBB_CLONES void AddScaledRow(const float* x, float scale, float* y, int64_t n) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) y[i] += scale * x[i];
}

// One use of a row of the table; its gradient is row `from` of dy times `scale`.
struct LookUp {
  int64_t row, place, from;
  float scale;
  bool operator<(const LookUp& other) const {
    return std::pair(row, place) < std::pair(other.row, other.place);
  }
};

struct LookUps {
  LookUps(const Graph& graph, const Node& node)
      : rows(In(graph, node, 0).type.shape[0]),
        count(NumElements(In(graph, node, 4).type.shape)),
        last_offset(node.attrs.Int("include_last_offset", 0) != 0),
        mean(node.attrs.Str("mode", "sum") == "mean") {
    if (HasInput(node, 5)) bags = In(graph, node, 1).type.shape[0];
  }

  // All whose row exists, into room for `count`; their number. An index is in one bag at most.
  template <class I>
  int64_t Collect(const KernelArgs& args, LookUp* out) const {
    const I* indices = InPtr<I>(args, 4);
    int64_t used = 0;
    const auto add = [&](int64_t k, int64_t from, float scale) {
      const int64_t row = indices[k] < 0 ? static_cast<int64_t>(indices[k]) + rows : indices[k];
      if (row >= 0 && row < rows) out[used++] = {row, k, from, scale};
    };
    if (bags < 0) {
      for (int64_t k = 0; k < count; ++k) add(k, k, 1);
      return used;
    }
    const I* offsets = InPtr<I>(args, 5);
    const auto clamp = [&](I at) { return std::clamp<int64_t>(at, 0, count); };
    int64_t seen = 0;
    for (int64_t b = 0; b < bags; ++b) {
      const int64_t begin = clamp(offsets[b]);
      const bool open = b + 1 == bags && !last_offset;
      const int64_t end = std::max(begin, open ? count : clamp(offsets[b + 1]));
      const float scale = mean && end > begin ? 1.0f / static_cast<float>(end - begin) : 1.0f;
      for (int64_t k = std::max(begin, seen); k < end; ++k) add(k, b, scale);
      seen = std::max(seen, end);
    }
    return used;
  }

  int64_t rows, count, bags = -1;
  bool last_offset, mean;
};

// Look-ups sorted by row and place, so that each row's gradients are added in their order; then a
// step a row. The workspace holds the look-ups and the sum of one row.
template <class I>
void UpdateRows(const KernelArgs& args, const Rowwise& table, const LookUps& uses) {
  auto* look_ups = static_cast<LookUp*>(args.workspace);
  auto* sum = reinterpret_cast<float*>(look_ups + uses.count);
  const int64_t used = uses.Collect<I>(args, look_ups);
  std::sort(look_ups, look_ups + used);
  const float rate = table.Rate(args);
  const float* dy = InPtr<float>(args, 1);
  for (int64_t k = 0; k < used;) {
    const int64_t row = look_ups[k].row;
    std::fill_n(sum, table.width, 0.0f);
    for (; k < used && look_ups[k].row == row; ++k) {
      AddScaledRow(dy + look_ups[k].from * table.width, look_ups[k].scale, sum, table.width);
    }
    RowStep(MutablePtr<float>(args, 0) + row * table.width, sum, MutablePtr<float>(args, 3) + row,
            table.width, table.rule, rate);
  }
}

absl::StatusOr<Kernel> MakeSparseRowwiseAdagrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32Param(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const Rowwise table(graph, node);
  const LookUps uses(graph, node);
  const bool narrow = In(graph, node, 4).type.dtype == DType::kI32;
  const auto update = narrow ? UpdateRows<int32_t> : UpdateRows<int64_t>;
  const auto workspace = uses.count * static_cast<int64_t>(sizeof(LookUp)) +
                         table.width * static_cast<int64_t>(sizeof(float));
  return MakeKernel(
      [=](const KernelArgs& args) {
        if (table.width > 0) update(args, table, uses);
        return absl::OkStatus();
      },
      Bytes(workspace));
}

constexpr KernelRow kRows[] = {{"AdagradUpdate", MakeAdagrad},
                               {"RmsPropUpdate", MakeRmsProp},
                               {"RowwiseAdagradUpdate", MakeRowwiseAdagrad},
                               {"SparseRowwiseAdagradUpdate", MakeSparseRowwiseAdagrad}};

}  // namespace

absl::Span<const KernelRow> AdaptiveKernels() { return kRows; }

}  // namespace ebb::device::cpu
