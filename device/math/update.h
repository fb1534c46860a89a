// Steps of optimizers for one element: what they need of their attributes, what of a step's rate
// and number (hyper[0] and hyper[1]), and how they change a parameter and its state.
#pragma once

#include <cmath>

#include "device/math/scalar.h"
#include "graph/attrs.h"

namespace ebb::device::math {

struct Sgd {
  struct Now {
    float rate, momentum, keep;
    bool first;  // the velocity starts as the gradient
  };
  explicit Sgd(const graph::Attrs& attrs)
      : lr_scale(attrs.Float("lr_scale", 1)),
        weight_decay(static_cast<float>(attrs.Float("weight_decay", 0))),
        momentum(static_cast<float>(attrs.Float("momentum", 0))),
        keep(static_cast<float>(1 - attrs.Float("dampening", 0))) {}
  EBB_INLINE Now At(const double* hyper) const {
    const bool first = hyper[1] <= 1;
    return {static_cast<float>(hyper[0] * lr_scale), momentum, first ? 1.0f : keep, first};
  }
  EBB_INLINE void Plain(const Now& now, float& p, float g) const {
    p -= now.rate * (g + weight_decay * p);
  }
  template <bool kNesterov>
  EBB_INLINE void Momentum(const Now& now, float& p, float g, float& v) const {
    const float d = g + weight_decay * p;
    const float velocity = now.first ? d : now.momentum * v + now.keep * d;
    v = velocity;
    p -= now.rate * (kNesterov ? d + now.momentum * velocity : velocity);
  }

  double lr_scale;
  float weight_decay, momentum, keep;
};

struct Adam {
  struct Now {
    float step, shrink, root;  // p = shrink p - step m / (sqrt(v) root + epsilon)
  };
  explicit Adam(const graph::Attrs& attrs)
      : lr_scale(attrs.Float("lr_scale", 1)),
        beta1(attrs.Float("beta1", 0.9)),
        beta2(attrs.Float("beta2", 0.999)),
        decay(attrs.Float("weight_decay", 0)),
        decoupled(attrs.Int("decoupled", 0) != 0),
        b1(static_cast<float>(beta1)),
        b2(static_cast<float>(beta2)),
        keep1(static_cast<float>(1 - beta1)),
        keep2(static_cast<float>(1 - beta2)),
        l2(decoupled ? 0.0f : static_cast<float>(decay)),
        epsilon(static_cast<float>(attrs.Float("epsilon", 1e-8))) {}
  EBB_INLINE Now At(const double* hyper) const {
    const double rate = hyper[0] * lr_scale;
    return {static_cast<float>(rate / (1 - std::pow(beta1, hyper[1]))),
            decoupled ? static_cast<float>(1 - rate * decay) : 1.0f,
            static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, hyper[1])))};
  }
  EBB_INLINE void operator()(const Now& now, float& p, float g, float& m, float& v) const {
    const float d = g + l2 * p;
    const float first = b1 * m + keep1 * d;
    const float second = b2 * v + keep2 * (d * d);
    m = first;
    v = second;
    p = now.shrink * p - now.step * (first / (std::sqrt(second) * now.root + epsilon));
  }

  double lr_scale, beta1, beta2, decay;
  bool decoupled;
  float b1, b2, keep1, keep2, l2, epsilon;
};

struct Adagrad {
  struct Now {
    float rate;
  };
  explicit Adagrad(const graph::Attrs& attrs)
      : lr_scale(attrs.Float("lr_scale", 1)),
        lr_decay(attrs.Float("lr_decay", 0)),
        l2(static_cast<float>(attrs.Float("weight_decay", 0))),
        epsilon(static_cast<float>(attrs.Float("epsilon", 1e-10))) {}
  EBB_INLINE Now At(const double* hyper) const {
    return {static_cast<float>(hyper[0] * lr_scale / (1 + (hyper[1] - 1) * lr_decay))};
  }
  EBB_INLINE void operator()(const Now& now, float& p, float g, float& s) const {
    const float d = g + l2 * p;
    const float sum = s + d * d;
    s = sum;
    p -= now.rate * (d / (std::sqrt(sum) + epsilon));
  }

  double lr_scale, lr_decay;
  float l2, epsilon;
};

struct RmsProp {
  struct Now {
    float rate;
  };
  explicit RmsProp(const graph::Attrs& attrs)
      : lr_scale(attrs.Float("lr_scale", 1)),
        l2(static_cast<float>(attrs.Float("weight_decay", 0))),
        alpha(static_cast<float>(attrs.Float("alpha", 0.99))),
        keep(static_cast<float>(1 - attrs.Float("alpha", 0.99))),
        epsilon(static_cast<float>(attrs.Float("epsilon", 1e-8))),
        momentum(static_cast<float>(attrs.Float("momentum", 0))) {}
  EBB_INLINE Now At(const double* hyper) const { return {static_cast<float>(hyper[0] * lr_scale)}; }
  // `velocity` with kMomentum, `mean` with kCentered; else they are not looked at.
  template <bool kMomentum, bool kCentered>
  EBB_INLINE void Step(const Now& now, float& p, float g, float& s, float& velocity,
                       float& mean) const {
    const float d = g + l2 * p;
    float history = alpha * s + keep * (d * d);
    s = history;
    if constexpr (kCentered) {
      const float m = alpha * mean + keep * d;
      mean = m;
      history -= m * m;
    }
    float step = d / (std::sqrt(history) + epsilon);
    if constexpr (kMomentum) {
      step += momentum * velocity;
      velocity = step;
    }
    p -= now.rate * step;
  }

  double lr_scale;
  float l2, alpha, keep, epsilon, momentum;
};

// Row-wise Adagrad: a row's sum grows by the mean of its gradient's squares.
struct RowwiseAdagrad {
  explicit RowwiseAdagrad(const graph::Attrs& attrs)
      : lr_scale(attrs.Float("lr_scale", 1)),
        l2(static_cast<float>(attrs.Float("weight_decay", 0))),
        epsilon(static_cast<float>(attrs.Float("epsilon", 1e-8))) {}
  EBB_INLINE float Rate(const double* hyper) const {
    return static_cast<float>(hyper[0] * lr_scale);
  }
  EBB_INLINE float Gradient(float p, float g) const { return g + l2 * p; }
  // What the row's gradient is multiplied with.
  EBB_INLINE float Step(float rate, float sum) const { return rate / (std::sqrt(sum) + epsilon); }

  double lr_scale;
  float l2, epsilon;
};

// The moving average of a parameter as an update leaves it. It begins as what the first step
// leaves.
struct MovingAverage {
  explicit MovingAverage(const graph::Attrs& attrs)
      : keep(static_cast<float>(attrs.Float("ema_decay", 0))),
        take(static_cast<float>(1 - attrs.Float("ema_decay", 0))) {}
  EBB_INLINE void operator()(bool first, float& ema, float p) const {
    ema = first ? p : keep * ema + take * p;
  }
  float keep, take;
};

}  // namespace ebb::device::math
