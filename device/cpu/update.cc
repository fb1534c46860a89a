// Optimizer updates, fused over a tensor: one pass reads the gradient and writes parameter and
// slots.
#include "device/math/update.h"

#include <cmath>
#include <vector>

#include "device/cpu/average.h"
#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

EBB_CLONES void SgdPlain(math::Sgd rule, math::Sgd::Now now, float* p, const float* g, int64_t n) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) rule.Plain(now, p[i], g[i]);
}

template <bool kNesterov>
EBB_CLONES void SgdMomentum(math::Sgd rule, math::Sgd::Now now, float* p, const float* g, float* v,
                            int64_t n) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) rule.Momentum<kNesterov>(now, p[i], g[i], v[i]);
}

absl::StatusOr<Kernel> MakeSgd(const Graph& graph, const Node& node) {
  if (const DType dtype = In(graph, node, 0).type.dtype; dtype != DType::kF32) {
    return BadType(node, dtype);
  }
  const int64_t n = NumElements(In(graph, node, 0).type.shape);
  const math::Sgd rule(node.attrs);
  const bool has_velocity = HasInput(node, 3);
  const auto momentum = node.attrs.Int("nesterov", 0) != 0 ? SgdMomentum<true> : SgdMomentum<false>;
  const Average average(graph, node, 4);
  return MakeKernel([=](const KernelArgs& args) {
    const math::Sgd::Now now = rule.At(InPtr<double>(args, 2));
    float* p = MutablePtr<float>(args, 0);
    const float* g = InPtr<float>(args, 1);
    if (has_velocity) {
      momentum(rule, now, p, g, MutablePtr<float>(args, 3), n);
    } else {
      SgdPlain(rule, now, p, g, n);
    }
    average.Move(args);
    return absl::OkStatus();
  });
}

EBB_CLONES void AdamStep(math::Adam rule, math::Adam::Now now, float* p, const float* g, float* m,
                         float* v, int64_t n) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) rule(now, p[i], g[i], m[i], v[i]);
}

absl::StatusOr<Kernel> MakeAdam(const Graph& graph, const Node& node) {
  if (const DType dtype = In(graph, node, 0).type.dtype; dtype != DType::kF32) {
    return BadType(node, dtype);
  }
  const int64_t n = NumElements(In(graph, node, 0).type.shape);
  const math::Adam rule(node.attrs);
  const Average average(graph, node, 5);
  return MakeKernel([=](const KernelArgs& args) {
    AdamStep(rule, rule.At(InPtr<double>(args, 2)), MutablePtr<float>(args, 0),
             InPtr<float>(args, 1), MutablePtr<float>(args, 3), MutablePtr<float>(args, 4), n);
    average.Move(args);
    return absl::OkStatus();
  });
}

EBB_CLONES double SumOfSquares(const float* g, int64_t n) {
  return BlockedSum(n, [g](int64_t i) { return g[i] * g[i]; });
}

// Tensors in the order of the operands, so that the sum is the same each time.
absl::StatusOr<Kernel> MakeClipFactor(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    sizes.push_back(NumElements(In(graph, node, i).type.shape));
  }
  const double max_norm = node.attrs.Float("max_norm", 0);
  return MakeKernel([sizes, max_norm](const KernelArgs& args) {
    double squares = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      squares += SumOfSquares(InPtr<float>(args, i), sizes[i]);
    }
    const double factor = max_norm / (std::sqrt(squares) + 1e-6);
    OutPtr<float>(args)[0] = static_cast<float>(factor > 1 ? 1 : factor);
    return absl::OkStatus();
  });
}

constexpr KernelRow kRows[] = {
    {"AdamUpdate", MakeAdam}, {"ClipFactor", MakeClipFactor}, {"SgdUpdate", MakeSgd}};

}  // namespace

absl::Span<const KernelRow> UpdateKernels() { return kRows; }

}  // namespace ebb::device::cpu
