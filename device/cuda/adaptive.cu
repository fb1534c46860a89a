// Optimizer updates that divide by a history of squares: Adagrad, RMSprop, and row-wise Adagrad of
// whole tables.
#include <algorithm>

#include "device/cuda/fused_update.h"
#include "device/cuda/lines.h"

namespace ebb::device::cuda {
namespace {

struct AdagradRule : math::Adagrad {
  using Adagrad::Adagrad;
  static constexpr bool kCostly = true;
};

struct PlainRmsProp : math::RmsProp {
  using RmsProp::RmsProp;
  static constexpr bool kCostly = false;
  EBB_INLINE void operator()(const Now& now, float& p, float g, float& s) const {
    float none = 0;
    Step<false, false>(now, p, g, s, none, none);
  }
};
struct MomentumRmsProp : math::RmsProp {
  using RmsProp::RmsProp;
  static constexpr bool kCostly = false;
  EBB_INLINE void operator()(const Now& now, float& p, float g, float& s, float& velocity) const {
    float none = 0;
    Step<true, false>(now, p, g, s, velocity, none);
  }
};
struct CenteredRmsProp : math::RmsProp {
  using RmsProp::RmsProp;
  static constexpr bool kCostly = false;
  EBB_INLINE void operator()(const Now& now, float& p, float g, float& s, float& mean) const {
    float none = 0;
    Step<false, true>(now, p, g, s, none, mean);
  }
};
struct CenteredMomentumRmsProp : math::RmsProp {
  using RmsProp::RmsProp;
  static constexpr bool kCostly = false;
  EBB_INLINE void operator()(const Now& now, float& p, float g, float& s, float& velocity,
                             float& mean) const {
    Step<true, true>(now, p, g, s, velocity, mean);
  }
};

absl::StatusOr<CudaKernel> MakeAdagrad(const Graph& graph, const Node& node) {
  return FusedUpdate(graph, node, AdagradRule(node.attrs), 4, std::index_sequence<3>());
}

absl::StatusOr<CudaKernel> MakeRmsProp(const Graph& graph, const Node& node) {
  const bool momentum = HasInput(node, 4), centered = HasInput(node, 5);
  if (momentum && centered) {
    return FusedUpdate(graph, node, CenteredMomentumRmsProp(node.attrs), 6,
                       std::index_sequence<3, 4, 5>());
  }
  if (momentum) {
    return FusedUpdate(graph, node, MomentumRmsProp(node.attrs), 6, std::index_sequence<3, 4>());
  }
  if (centered) {
    return FusedUpdate(graph, node, CenteredRmsProp(node.attrs), 6, std::index_sequence<3, 5>());
  }
  return FusedUpdate(graph, node, PlainRmsProp(node.attrs), 6, std::index_sequence<3>());
}

// ---- Row-wise Adagrad: the sums of rows first, and what their gradients are multiplied with; then
// the elements.

struct RowSteps {
  struct Sum {
    float squares;
    int32_t touched;
  };
  static constexpr bool kEach = false;
  EBB_INLINE Sum Zero() const { return {0, 0}; }
  EBB_INLINE void Add(Sum& sum, int64_t row, int64_t i) const {
    const float g = grad[row * width + i];
    const float d = rule.Gradient(param[row * width + i], g);
    sum.squares += d * d;
    sum.touched |= g != 0.0f ? 1 : 0;
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const {
    sum.squares += other.squares;
    sum.touched |= other.touched;
  }
  EBB_INLINE void Done(int64_t row, const Sum& sum) const {
    if (sparse && sum.touched == 0) {
      steps[row] = 0;
      return;
    }
    sums[row] += sum.squares / static_cast<float>(width);
    steps[row] = rule.Step(rule.Rate(hyper), sums[row]);
  }
  math::RowwiseAdagrad rule;
  int64_t width;
  bool sparse;
  const float* param;
  const float* grad;
  const double* hyper;
  float* sums;
  float* steps;
};

struct UpdateRows {
  EBB_INLINE void operator()(int64_t row, int64_t i) const {
    const int64_t at = row * width + i;
    const float step = steps[row];
    float p = param[at];
    if (step != 0.0f) {
      p -= step * rule.Gradient(p, grad[at]);
      param[at] = p;
    }
    if (ema != nullptr) average(hyper[1] <= 1, ema[at], p);
  }
  math::RowwiseAdagrad rule;
  math::MovingAverage average;
  int64_t width;
  float* param;
  const float* grad;
  const double* hyper;
  const float* steps;
  float* ema;
};

absl::StatusOr<CudaKernel> MakeRowwiseAdagrad(const Graph& graph, const Node& node) {
  const TensorType& param = In(graph, node, 0).type;
  if (param.dtype != DType::kF32) return BadType(node, param.dtype);
  const int64_t rows = param.shape[0];
  const int64_t width = NumElements(param.shape) / std::max<int64_t>(rows, 1);
  const bool sparse = node.attrs.Int("sparse", 0) != 0;
  const math::RowwiseAdagrad rule(node.attrs);
  const math::MovingAverage average(node.attrs);
  const auto run = [=](const Launch& at, const KernelArgs& args) -> absl::Status {
    if (width == 0) return absl::OkStatus();
    auto* const p = MutablePtr<float>(args, 0);
    const auto* g = InPtr<float>(args, 1);
    const auto* hyper = InPtr<double>(args, 2);
    auto* const steps = static_cast<float*>(args.workspace);
    EBB_RETURN_IF_ERROR(
        Lines(at, SumsBy::kRows, rows, width,
              RowSteps{rule, width, sparse, p, g, hyper, MutablePtr<float>(args, 3), steps}));
    return Cells(at, rows, width,
                 UpdateRows{rule, average, width, p, g, hyper, steps, MutablePtr<float>(args, 4)});
  };
  return MakeCudaKernel(run, Bytes(rows * static_cast<int64_t>(sizeof(float))));
}

constexpr CudaKernelRow kRows[] = {{"AdagradUpdate", MakeAdagrad},
                                   {"RmsPropUpdate", MakeRmsProp},
                                   {"RowwiseAdagradUpdate", MakeRowwiseAdagrad}};

}  // namespace

absl::Span<const CudaKernelRow> AdaptiveKernels() { return kRows; }

}  // namespace ebb::device::cuda
