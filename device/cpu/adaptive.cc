// Optimizer updates that divide by a history of squares: Adagrad, RMSprop, and row-wise Adagrad,
// which visits whole tables or only the rows that were looked up.
#include "device/cpu/adaptive.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "device/cpu/average.h"
#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

absl::Status RequireF32Param(const Graph& graph, const Node& node) {
  const DType dtype = In(graph, node, 0).type.dtype;
  return dtype == DType::kF32 ? absl::OkStatus() : BadType(node, dtype);
}

struct AdagradCoefficients {
  float rate, l2, epsilon;
};

EBB_CLONES void AdagradStep(float* p, const float* g, float* s, int64_t n, AdagradCoefficients k) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) {
    const float d = g[i] + k.l2 * p[i];
    const float sum = s[i] + d * d;
    s[i] = sum;
    p[i] -= k.rate * (d / (std::sqrt(sum) + k.epsilon));
  }
}

absl::StatusOr<Kernel> MakeAdagrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32Param(graph, node));
  const int64_t n = NumElements(In(graph, node, 0).type.shape);
  const double lr_scale = node.attrs.Float("lr_scale", 1);
  const double lr_decay = node.attrs.Float("lr_decay", 0);
  const auto l2 = static_cast<float>(node.attrs.Float("weight_decay", 0));
  const auto epsilon = static_cast<float>(node.attrs.Float("epsilon", 1e-10));
  const Average average(graph, node, 4);
  return MakeKernel([=](const KernelArgs& args) {
    const double* hyper = InPtr<double>(args, 2);
    const double rate = hyper[0] * lr_scale / (1 + (hyper[1] - 1) * lr_decay);
    AdagradStep(MutablePtr<float>(args, 0), InPtr<float>(args, 1), MutablePtr<float>(args, 3), n,
                {static_cast<float>(rate), l2, epsilon});
    average.Move(args);
    return absl::OkStatus();
  });
}

struct RmsPropCoefficients {
  float rate, l2, alpha, keep, epsilon, momentum;
};

template <bool kMomentum, bool kCentered>
EBB_CLONES void RmsPropStep(float* p, const float* g, float* s, float* velocity, float* mean,
                            int64_t n, RmsPropCoefficients k) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) {
    const float d = g[i] + k.l2 * p[i];
    float history = k.alpha * s[i] + k.keep * (d * d);
    s[i] = history;
    if (kCentered) {
      const float m = k.alpha * mean[i] + k.keep * d;
      mean[i] = m;
      history -= m * m;
    }
    float step = d / (std::sqrt(history) + k.epsilon);
    if (kMomentum) {
      step += k.momentum * velocity[i];
      velocity[i] = step;
    }
    p[i] -= k.rate * step;
  }
}

absl::StatusOr<Kernel> MakeRmsProp(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32Param(graph, node));
  const int64_t n = NumElements(In(graph, node, 0).type.shape);
  const double lr_scale = node.attrs.Float("lr_scale", 1);
  const double alpha = node.attrs.Float("alpha", 0.99);
  RmsPropCoefficients k{};
  k.l2 = static_cast<float>(node.attrs.Float("weight_decay", 0));
  k.alpha = static_cast<float>(alpha);
  k.keep = static_cast<float>(1 - alpha);
  k.epsilon = static_cast<float>(node.attrs.Float("epsilon", 1e-8));
  k.momentum = static_cast<float>(node.attrs.Float("momentum", 0));
  const bool momentum = HasInput(node, 4), centered = HasInput(node, 5);
  const auto step = momentum ? (centered ? RmsPropStep<true, true> : RmsPropStep<true, false>)
                             : (centered ? RmsPropStep<false, true> : RmsPropStep<false, false>);
  const Average average(graph, node, 6);
  return MakeKernel([=](const KernelArgs& args) {
    RmsPropCoefficients now = k;
    now.rate = static_cast<float>(InPtr<double>(args, 2)[0] * lr_scale);
    step(MutablePtr<float>(args, 0), InPtr<float>(args, 1), MutablePtr<float>(args, 3),
         MutablePtr<float>(args, 4), MutablePtr<float>(args, 5), n, now);
    average.Move(args);
    return absl::OkStatus();
  });
}

// One row of a table: its sum grows by the mean of its gradient's squares.
EBB_CLONES void RowStep(float* p, const float* g, float* sum, int64_t width,
                        AdagradCoefficients k) {
  const double squares = BlockedSum(width, [p, g, k](int64_t i) {
    const float d = g[i] + k.l2 * p[i];
    return d * d;
  });
  const float now = *sum + static_cast<float>(squares / static_cast<double>(width));
  *sum = now;
  const float step = k.rate / (std::sqrt(now) + k.epsilon);
  EBB_IVDEP
  for (int64_t i = 0; i < width; ++i) p[i] -= step * (g[i] + k.l2 * p[i]);
}

struct Rowwise {
  Rowwise(const Graph& graph, const Node& node)
      : rows(In(graph, node, 0).type.shape[0]),
        width(NumElements(In(graph, node, 0).type.shape) / std::max<int64_t>(rows, 1)),
        lr_scale(node.attrs.Float("lr_scale", 1)),
        l2(static_cast<float>(node.attrs.Float("weight_decay", 0))),
        epsilon(static_cast<float>(node.attrs.Float("epsilon", 1e-8))) {}
  AdagradCoefficients Now(const KernelArgs& args) const {
    return {static_cast<float>(InPtr<double>(args, 2)[0] * lr_scale), l2, epsilon};
  }

  int64_t rows, width;
  double lr_scale;
  float l2, epsilon;
};

absl::StatusOr<Kernel> MakeRowwiseAdagrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32Param(graph, node));
  const Rowwise table(graph, node);
  const bool sparse = node.attrs.Int("sparse", 0) != 0;
  const Average average(graph, node, 4);
  return MakeKernel([=](const KernelArgs& args) {
    const AdagradCoefficients now = table.Now(args);
    for (int64_t r = 0; r < table.rows && table.width > 0; ++r) {
      const float* g = InPtr<float>(args, 1) + r * table.width;
      if (sparse && std::all_of(g, g + table.width, [](float d) { return d == 0; })) continue;
      RowStep(MutablePtr<float>(args, 0) + r * table.width, g, MutablePtr<float>(args, 3) + r,
              table.width, now);
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
  const AdagradCoefficients now = table.Now(args);
  const float* dy = InPtr<float>(args, 1);
  for (int64_t k = 0; k < used;) {
    const int64_t row = look_ups[k].row;
    std::fill_n(sum, table.width, 0.0f);
    for (; k < used && look_ups[k].row == row; ++k) {
      AddScaledRow(dy + look_ups[k].from * table.width, look_ups[k].scale, sum, table.width);
    }
    RowStep(MutablePtr<float>(args, 0) + row * table.width, sum, MutablePtr<float>(args, 3) + row,
            table.width, now);
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
