// Elementwise functions and their gradients, shared by the devices: f(x), and f(dy, x or y) for the
// gradient, as the op table says which of the two is kept.
#pragma once

#include <cmath>

#include "device/math/scalar.h"
#include "graph/attrs.h"

namespace ebb::device::math {

using graph::Attrs;

constexpr float kSqrtHalf = 0.70710678118654752f;
constexpr float kInvSqrt2Pi = 0.39894228040143268f;
constexpr float kSqrt2OverPi = 0.79788456080286536f;
constexpr float kTwoOverSqrtPi = 1.12837916709551257f;
constexpr float kGeluCubic = 0.044715f;

EBB_INLINE float Clamp(float x, float lo, float hi) { return x < lo ? lo : (x > hi ? hi : x); }

// A functor reads its attributes once; NaN goes through wherever the formula allows it.
struct Relu {
  explicit Relu(const Attrs&) {}
  EBB_INLINE float operator()(float x) const { return x < 0.0f ? 0.0f : x; }
};
struct ReluGrad {
  explicit ReluGrad(const Attrs&) {}
  EBB_INLINE float operator()(float dy, float y) const { return y > 0.0f ? dy : 0.0f; }
};
struct LeakyRelu {
  explicit LeakyRelu(const Attrs& a) : alpha(static_cast<float>(a.Float("alpha", 0.01))) {}
  EBB_INLINE float operator()(float x) const { return x < 0.0f ? alpha * x : x; }
  EBB_INLINE float operator()(float dy, float x) const { return x < 0.0f ? alpha * dy : dy; }
  float alpha;
};
struct Elu {
  explicit Elu(const Attrs& a) : alpha(static_cast<float>(a.Float("alpha", 1))) {}
  EBB_INLINE float operator()(float x) const { return x < 0.0f ? alpha * (Exp(x) - 1.0f) : x; }
  EBB_INLINE float operator()(float dy, float x) const {
    return x < 0.0f ? dy * (alpha * Exp(x)) : dy;
  }
  float alpha;
};
struct SigmoidOp {
  explicit SigmoidOp(const Attrs&) {}
  EBB_INLINE float operator()(float x) const { return Sigmoid(x); }
  EBB_INLINE float operator()(float dy, float y) const { return dy * y * (1.0f - y); }
};
struct TanhOp {
  explicit TanhOp(const Attrs&) {}
  EBB_INLINE float operator()(float x) const { return Tanh(x); }
  EBB_INLINE float operator()(float dy, float y) const { return dy * (1.0f - y * y); }
};
struct Clip {
  explicit Clip(const Attrs& a)
      : lo(static_cast<float>(a.Float("min", -INFINITY))),
        hi(static_cast<float>(a.Float("max", INFINITY))) {}
  EBB_INLINE float operator()(float x) const {
    const float y = x < lo ? lo : x;
    return y > hi ? hi : y;
  }
  EBB_INLINE float operator()(float dy, float x) const {
    const float below = x < lo ? 0.0f : dy;
    return x > hi ? 0.0f : below;
  }
  float lo, hi;
};
struct HardTanh {
  explicit HardTanh(const Attrs& a)
      : lo(static_cast<float>(a.Float("min", -1))), hi(static_cast<float>(a.Float("max", 1))) {}
  EBB_INLINE float operator()(float x) const { return Clamp(x, lo, hi); }
  EBB_INLINE float operator()(float dy, float y) const {
    const float above = y > lo ? dy : 0.0f;
    return y < hi ? above : 0.0f;
  }
  float lo, hi;
};
struct HardSigmoid {
  explicit HardSigmoid(const Attrs& a)
      : alpha(static_cast<float>(a.Float("alpha", 0.2))),
        beta(static_cast<float>(a.Float("beta", 0.5))) {}
  EBB_INLINE float operator()(float x) const { return Clamp(alpha * x + beta, 0.0f, 1.0f); }
  EBB_INLINE float operator()(float dy, float x) const {
    const float t = alpha * x + beta;
    const float low = t > 0.0f ? alpha * dy : 0.0f;
    return t < 1.0f ? low : 0.0f;
  }
  float alpha, beta;
};
struct HardSwish {
  explicit HardSwish(const Attrs&) {}
  EBB_INLINE float operator()(float x) const {
    return x * Clamp(x * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f);
  }
  EBB_INLINE float operator()(float dy, float x) const {
    const float middle = x < 3.0f ? dy * (x * (1.0f / 3.0f) + 0.5f) : dy;
    return x > -3.0f ? middle : 0.0f;
  }
};
struct Silu {
  explicit Silu(const Attrs&) {}
  EBB_INLINE float operator()(float x) const { return x * Sigmoid(x); }
  EBB_INLINE float operator()(float dy, float x) const {
    const float s = Sigmoid(x);
    return dy * (s * (1.0f + x * (1.0f - s)));
  }
};
struct Softplus {
  explicit Softplus(const Attrs&) {}
  EBB_INLINE float operator()(float x) const {
    return (x > 0.0f ? x : 0.0f) + std::log1p(std::exp(-std::fabs(x)));
  }
  EBB_INLINE float operator()(float dy, float x) const { return dy * Sigmoid(x); }
};
struct GeluErf {
  explicit GeluErf(const Attrs&) {}
  EBB_INLINE float operator()(float x) const { return 0.5f * x * (1.0f + Erf(x * kSqrtHalf)); }
  EBB_INLINE float operator()(float dy, float x) const {
    const float cdf = 0.5f * (1.0f + Erf(x * kSqrtHalf));
    return dy * (cdf + x * (kInvSqrt2Pi * Exp(-0.5f * x * x)));
  }
};
struct GeluTanh {
  explicit GeluTanh(const Attrs&) {}
  EBB_INLINE float operator()(float x) const {
    return 0.5f * x * (1.0f + Tanh(kSqrt2OverPi * (x + kGeluCubic * x * x * x)));
  }
  EBB_INLINE float operator()(float dy, float x) const {
    const float t = Tanh(kSqrt2OverPi * (x + kGeluCubic * x * x * x));
    const float inner = kSqrt2OverPi * (1.0f + 3.0f * kGeluCubic * x * x);
    return dy * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner);
  }
};
struct ErfOp {
  explicit ErfOp(const Attrs&) {}
  EBB_INLINE float operator()(float x) const { return Erf(x); }
  EBB_INLINE float operator()(float dy, float x) const {
    return dy * (kTwoOverSqrtPi * Exp(-x * x));
  }
};
struct ExpOp {
  explicit ExpOp(const Attrs&) {}
  EBB_INLINE float operator()(float x) const { return Exp(x); }
};
struct LogOp {
  explicit LogOp(const Attrs&) {}
  EBB_INLINE float operator()(float x) const { return std::log(x); }
};
struct SqrtOp {
  explicit SqrtOp(const Attrs&) {}
  EBB_INLINE float operator()(float x) const { return std::sqrt(x); }
};
struct Reciprocal {
  explicit Reciprocal(const Attrs&) {}
  EBB_INLINE float operator()(float x) const { return 1.0f / x; }
};
struct Neg {
  explicit Neg(const Attrs&) {}
  EBB_INLINE float operator()(float x) const { return -x; }
};
struct Abs {
  explicit Abs(const Attrs&) {}
  EBB_INLINE float operator()(float x) const { return std::fabs(x); }
};
struct Sign {
  explicit Sign(const Attrs&) {}
  EBB_INLINE float operator()(float x) const {
    const float below = x < 0.0f ? -1.0f : x;  // 0 and NaN stay
    return x > 0.0f ? 1.0f : below;
  }
};
struct Floor {
  explicit Floor(const Attrs&) {}
  EBB_INLINE float operator()(float x) const { return std::floor(x); }
};
struct Ceil {
  explicit Ceil(const Attrs&) {}
  EBB_INLINE float operator()(float x) const { return std::ceil(x); }
};
struct Round {  // halves to even
  explicit Round(const Attrs&) {}
  EBB_INLINE float operator()(float x) const { return std::nearbyint(x); }
};
struct SinOp {
  explicit SinOp(const Attrs&) {}
  EBB_INLINE float operator()(float x) const { return std::sin(x); }
};
struct CosOp {
  explicit CosOp(const Attrs&) {}
  EBB_INLINE float operator()(float x) const { return std::cos(x); }
};
struct AtanOp {
  explicit AtanOp(const Attrs&) {}
  EBB_INLINE float operator()(float x) const { return std::atan(x); }
};
struct ScaleOp {
  explicit ScaleOp(const Attrs& a)
      : scale(static_cast<float>(a.Float("scale", 1))),
        shift(static_cast<float>(a.Float("shift", 0))) {}
  EBB_INLINE float operator()(float x) const { return x * scale + shift; }
  float scale, shift;
};

}  // namespace ebb::device::math
