// Optimizer updates, as PyTorch defines them: torch.optim.SGD, Adam and AdamW.
#include <cmath>

#include "device/ref/common.h"
#include "device/ref/kernels.h"

namespace ebb::device::ref {
namespace {

// (param, grad, hyper, [velocity])
absl::StatusOr<Kernel> SgdUpdate(const Graph& graph, const Node& node) {
  const int64_t n = NumElements(InType(graph, node, 0).shape);
  const double lr_scale = node.attrs.Float("lr_scale", 1);
  const double weight_decay = node.attrs.Float("weight_decay", 0);
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
  });
}

// (param, grad, hyper, m, v)
absl::StatusOr<Kernel> AdamUpdate(const Graph& graph, const Node& node) {
  const int64_t n = NumElements(InType(graph, node, 0).shape);
  const double lr_scale = node.attrs.Float("lr_scale", 1);
  const double weight_decay = node.attrs.Float("weight_decay", 0);
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
  });
}

}  // namespace

absl::Span<const KernelRow> Update() {
  static constexpr KernelRow kRows[] = {{"SgdUpdate", SgdUpdate}, {"AdamUpdate", AdamUpdate}};
  return kRows;
}

}  // namespace ebb::device::ref
