// Optimizer updates, as PyTorch defines them: torch.optim.SGD, Adam and AdamW.
#include <cmath>
#include <vector>

#include "device/ref/average.h"
#include "device/ref/common.h"
#include "device/ref/kernels.h"

namespace ebb::device::ref {
namespace {

// (param, grad, hyper, [velocity], [ema])
absl::StatusOr<Kernel> SgdUpdate(const Graph& graph, const Node& node) {
  const int64_t n = NumElements(InType(graph, node, 0).shape);
  const double lr_scale = node.attrs.Float("lr_scale", 1);
  const double weight_decay = node.attrs.Float("weight_decay", 0);
  const double ema_decay = node.attrs.Float("ema_decay", 0);
  const double momentum = node.attrs.Float("momentum", 0);
  const double dampening = node.attrs.Float("dampening", 0);
  const bool nesterov = node.attrs.Int("nesterov", 0) != 0;
  return ForFloat(InType(graph, node, 0).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const double rate = In<double>(args, 2)[0] * lr_scale;
    const bool first_step = In<double>(args, 2)[1] <= 1;
    T* param = InOut<T>(args, 0);
    T* velocity = InOut<T>(args, 3);
    for (int64_t i = 0; i < n; ++i) {
      double step = In<T>(args, 1)[i] + weight_decay * param[i];
      if (velocity != nullptr) {
        const double v = first_step ? step : momentum * velocity[i] + (1 - dampening) * step;
        velocity[i] = static_cast<T>(v);
        step = nesterov ? step + momentum * v : v;
      }
      param[i] = static_cast<T>(param[i] - rate * step);
    }
    Average(InOut<T>(args, 4), param, n, ema_decay, In<double>(args, 2));
  });
}

// (param, grad, hyper, m, v, [ema])
absl::StatusOr<Kernel> AdamUpdate(const Graph& graph, const Node& node) {
  const int64_t n = NumElements(InType(graph, node, 0).shape);
  const double lr_scale = node.attrs.Float("lr_scale", 1);
  const double weight_decay = node.attrs.Float("weight_decay", 0);
  const double ema_decay = node.attrs.Float("ema_decay", 0);
  const double beta1 = node.attrs.Float("beta1", 0.9);
  const double beta2 = node.attrs.Float("beta2", 0.999);
  const double epsilon = node.attrs.Float("epsilon", 1e-8);
  const bool decoupled = node.attrs.Int("decoupled", 0) != 0;
  return ForFloat(InType(graph, node, 0).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const double rate = In<double>(args, 2)[0] * lr_scale;
    const double step = In<double>(args, 2)[1];
    const double correction1 = 1 - std::pow(beta1, step);
    const double correction2 = 1 - std::pow(beta2, step);
    T* param = InOut<T>(args, 0);
    T* m = InOut<T>(args, 3);
    T* v = InOut<T>(args, 4);
    for (int64_t i = 0; i < n; ++i) {
      double grad = In<T>(args, 1)[i];
      double p = param[i];
      if (decoupled) {
        p -= rate * weight_decay * p;
      } else {
        grad += weight_decay * p;
      }
      const double first = beta1 * m[i] + (1 - beta1) * grad;
      const double second = beta2 * v[i] + (1 - beta2) * grad * grad;
      m[i] = static_cast<T>(first);
      v[i] = static_cast<T>(second);
      const double denominator = std::sqrt(second) / std::sqrt(correction2) + epsilon;
      param[i] = static_cast<T>(p - rate / correction1 * first / denominator);
    }
    Average(InOut<T>(args, 5), param, n, ema_decay, In<double>(args, 2));
  });
}

// (grad1, ..., gradn): torch.nn.utils.clip_grad_norm_'s coefficient. A norm that is not a number
// stays one.
absl::StatusOr<Kernel> ClipFactor(const Graph& graph, const Node& node) {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    sizes.push_back(NumElements(InType(graph, node, i).shape));
  }
  const double max_norm = node.attrs.Float("max_norm", 0);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    double squares = 0;
    for (size_t k = 0; k < sizes.size(); ++k) {
      for (int64_t i = 0; i < sizes[k]; ++i) {
        const double g = In<T>(args, k)[i];
        squares += g * g;
      }
    }
    const double factor = max_norm / (std::sqrt(squares) + 1e-6);
    Out<T>(args)[0] = static_cast<T>(factor > 1 ? 1 : factor);
  });
}

}  // namespace

absl::Span<const KernelRow> Update() {
  static constexpr KernelRow kRows[] = {
      {"SgdUpdate", SgdUpdate}, {"AdamUpdate", AdamUpdate}, {"ClipFactor", ClipFactor}};
  return kRows;
}

}  // namespace ebb::device::ref
