// Optimizer updates, fused over a tensor: one pass reads the gradient and writes parameter and
// slots.
#include <cmath>
#include <vector>

#include "device/cpu/average.h"
#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

struct SgdCoefficients {
  float rate, weight_decay, momentum, keep;  // keep: 1 - dampening, or 1 at the first step
};

EBB_CLONES void SgdPlain(float* p, const float* g, int64_t n, SgdCoefficients k) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) p[i] -= k.rate * (g[i] + k.weight_decay * p[i]);
}

template <bool kNesterov>
EBB_CLONES void SgdMomentum(float* p, const float* g, float* v, int64_t n, SgdCoefficients k) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) {
    const float d = g[i] + k.weight_decay * p[i];
    const float velocity = k.momentum * v[i] + k.keep * d;
    v[i] = velocity;
    p[i] -= k.rate * (kNesterov ? d + k.momentum * velocity : velocity);
  }
}

absl::StatusOr<Kernel> MakeSgd(const Graph& graph, const Node& node) {
  if (const DType dtype = In(graph, node, 0).type.dtype; dtype != DType::kF32) {
    return BadType(node, dtype);
  }
  const int64_t n = NumElements(In(graph, node, 0).type.shape);
  const double lr_scale = node.attrs.Float("lr_scale", 1);
  const double dampening = node.attrs.Float("dampening", 0);
  SgdCoefficients k{};
  k.weight_decay = static_cast<float>(node.attrs.Float("weight_decay", 0));
  k.momentum = static_cast<float>(node.attrs.Float("momentum", 0));
  const bool nesterov = node.attrs.Int("nesterov", 0) != 0;
  const bool has_velocity = HasInput(node, 3);
  const auto step = [=](const KernelArgs& args) {
    const double* hyper = InPtr<double>(args, 2);
    SgdCoefficients now = k;
    now.rate = static_cast<float>(hyper[0] * lr_scale);
    float* p = MutablePtr<float>(args, 0);
    const float* g = InPtr<float>(args, 1);
    if (!has_velocity) {
      SgdPlain(p, g, n, now);
      return;
    }
    if (hyper[1] <= 1) {  // the velocity starts as the gradient
      now.keep = 1;
      now.momentum = 0;
      float* v = MutablePtr<float>(args, 3);
      for (int64_t i = 0; i < n; ++i) v[i] = 0;
      if (nesterov) {
        // velocity = d, so d + momentum * velocity = (1 + momentum) d
        SgdMomentum<false>(p, g, v, n, {now.rate * (1 + k.momentum), now.weight_decay, 0, 1});
      } else {
        SgdMomentum<false>(p, g, v, n, now);
      }
      return;
    }
    now.keep = static_cast<float>(1 - dampening);
    (nesterov ? SgdMomentum<true> : SgdMomentum<false>)(p, g, MutablePtr<float>(args, 3), n, now);
  };
  const Average average(graph, node, 4);
  return MakeKernel([step, average](const KernelArgs& args) {
    step(args);
    average.Move(args);
    return absl::OkStatus();
  });
}

struct AdamCoefficients {
  float step, shrink, l2;  // p = shrink p - step m / (sqrt(v) root + epsilon); g += l2 p
  float beta1, beta2, keep1, keep2, root, epsilon;
};

EBB_CLONES void AdamStep(float* p, const float* g, float* m, float* v, int64_t n,
                         AdamCoefficients k) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) {
    const float d = g[i] + k.l2 * p[i];
    const float first = k.beta1 * m[i] + k.keep1 * d;
    const float second = k.beta2 * v[i] + k.keep2 * (d * d);
    m[i] = first;
    v[i] = second;
    p[i] = k.shrink * p[i] - k.step * (first / (std::sqrt(second) * k.root + k.epsilon));
  }
}

absl::StatusOr<Kernel> MakeAdam(const Graph& graph, const Node& node) {
  if (const DType dtype = In(graph, node, 0).type.dtype; dtype != DType::kF32) {
    return BadType(node, dtype);
  }
  const int64_t n = NumElements(In(graph, node, 0).type.shape);
  const double lr_scale = node.attrs.Float("lr_scale", 1);
  const double beta1 = node.attrs.Float("beta1", 0.9);
  const double beta2 = node.attrs.Float("beta2", 0.999);
  const double decay = node.attrs.Float("weight_decay", 0);
  const double epsilon = node.attrs.Float("epsilon", 1e-8);
  const bool decoupled = node.attrs.Int("decoupled", 0) != 0;
  const Average average(graph, node, 5);
  return MakeKernel([=](const KernelArgs& args) {
    const double* hyper = InPtr<double>(args, 2);
    const double rate = hyper[0] * lr_scale;
    AdamCoefficients k{};
    k.beta1 = static_cast<float>(beta1);
    k.beta2 = static_cast<float>(beta2);
    k.keep1 = static_cast<float>(1 - beta1);
    k.keep2 = static_cast<float>(1 - beta2);
    k.step = static_cast<float>(rate / (1 - std::pow(beta1, hyper[1])));
    k.root = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, hyper[1])));
    k.epsilon = static_cast<float>(epsilon);
    k.shrink = decoupled ? static_cast<float>(1 - rate * decay) : 1.0f;
    k.l2 = decoupled ? 0.0f : static_cast<float>(decay);
    AdamStep(MutablePtr<float>(args, 0), InPtr<float>(args, 1), MutablePtr<float>(args, 3),
             MutablePtr<float>(args, 4), n, k);
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
