// Elementwise ops of one input and their gradients: any layout, in place or not.
#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

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

template <class F>
absl::StatusOr<Kernel> Unary(const Graph& graph, const Node& node) {
  if (const DType dtype = In(graph, node).type.dtype; dtype != DType::kF32) {
    return BadType(node, dtype);
  }
  return MakeKernel([f = F(node.attrs), n = OutElements(graph, node)](const KernelArgs& args) {
    Map1(InPtr<float>(args), OutPtr<float>(args), n, f);
    return absl::OkStatus();
  });
}

template <class F>
absl::StatusOr<Kernel> Gradient(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  return MakeKernel([f = F(node.attrs), n = OutElements(graph, node)](const KernelArgs& args) {
    Map2(InPtr<float>(args, 0), InPtr<float>(args, 1), OutPtr<float>(args), n, f);
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeGelu(const Graph& graph, const Node& node) {
  return node.attrs.Str("approximate", "none") == "tanh" ? Unary<GeluTanh>(graph, node)
                                                         : Unary<GeluErf>(graph, node);
}
absl::StatusOr<Kernel> MakeGeluGrad(const Graph& graph, const Node& node) {
  return node.attrs.Str("approximate", "none") == "tanh" ? Gradient<GeluTanh>(graph, node)
                                                         : Gradient<GeluErf>(graph, node);
}

template <class From, class To>
Kernel CastKernel(int64_t n, bool to_bool) {
  return MakeKernel([n, to_bool](const KernelArgs& args) {
    const From* x = InPtr<From>(args);
    To* y = OutPtr<To>(args);
    if (to_bool) {
      for (int64_t i = 0; i < n; ++i) y[i] = x[i] != From(0) ? To(1) : To(0);
    } else {
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<To>(x[i]);
    }
    return absl::OkStatus();
  });
}

template <class From>
Kernel CastFrom(DType to, int64_t n) {
  switch (to) {
    case DType::kF32:
      return CastKernel<From, float>(n, false);
    case DType::kF64:
      return CastKernel<From, double>(n, false);
    case DType::kI32:
      return CastKernel<From, int32_t>(n, false);
    case DType::kI64:
      return CastKernel<From, int64_t>(n, false);
    case DType::kU8:
      return CastKernel<From, uint8_t>(n, false);
    case DType::kBool:
      break;
  }
  return CastKernel<From, uint8_t>(n, true);
}

absl::StatusOr<Kernel> MakeCast(const Graph& graph, const Node& node) {
  const int64_t n = OutElements(graph, node);
  const DType to = Out(graph, node).type.dtype;
  switch (In(graph, node).type.dtype) {
    case DType::kF32:
      return CastFrom<float>(to, n);
    case DType::kF64:
      return CastFrom<double>(to, n);
    case DType::kI32:
      return CastFrom<int32_t>(to, n);
    case DType::kI64:
      return CastFrom<int64_t>(to, n);
    case DType::kU8:
    case DType::kBool:
      break;
  }
  return CastFrom<uint8_t>(to, n);
}

constexpr KernelRow kRows[] = {
    {"Abs", Unary<Abs>},
    {"Atan", Unary<AtanOp>},
    {"Ceil", Unary<Ceil>},
    {"Cos", Unary<CosOp>},
    {"Floor", Unary<Floor>},
    {"Round", Unary<Round>},
    {"Sin", Unary<SinOp>},
    {"Cast", MakeCast},
    {"Clip", Unary<Clip>},
    {"ClipGrad", Gradient<Clip>},
    {"Elu", Unary<Elu>},
    {"EluGrad", Gradient<Elu>},
    {"Erf", Unary<ErfOp>},
    {"ErfGrad", Gradient<ErfOp>},
    {"Exp", Unary<ExpOp>},
    {"Gelu", MakeGelu},
    {"GeluGrad", MakeGeluGrad},
    {"HardSigmoid", Unary<HardSigmoid>},
    {"HardSigmoidGrad", Gradient<HardSigmoid>},
    {"HardTanh", Unary<HardTanh>},
    {"HardTanhGrad", Gradient<HardTanh>},
    {"HardSwish", Unary<HardSwish>},
    {"HardSwishGrad", Gradient<HardSwish>},
    {"LeakyRelu", Unary<LeakyRelu>},
    {"LeakyReluGrad", Gradient<LeakyRelu>},
    {"Log", Unary<LogOp>},
    {"Neg", Unary<Neg>},
    {"Reciprocal", Unary<Reciprocal>},
    {"Relu", Unary<Relu>},
    {"ReluGrad", Gradient<ReluGrad>},
    {"Scale", Unary<ScaleOp>},
    {"Sigmoid", Unary<SigmoidOp>},
    {"SigmoidGrad", Gradient<SigmoidOp>},
    {"Silu", Unary<Silu>},
    {"SiluGrad", Gradient<Silu>},
    {"Sign", Unary<Sign>},
    {"Softplus", Unary<Softplus>},
    {"SoftplusGrad", Gradient<Softplus>},
    {"Sqrt", Unary<SqrtOp>},
    {"Tanh", Unary<TanhOp>},
    {"TanhGrad", Gradient<TanhOp>},
};

}  // namespace

absl::Span<const KernelRow> UnaryKernels() { return kRows; }

}  // namespace ebb::device::cpu
