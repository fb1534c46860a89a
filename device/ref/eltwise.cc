// Elementwise ops of one tensor, and their gradients. Each element is computed in double.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "device/ref/common.h"
#include "device/ref/kernels.h"

namespace ebb::device::ref {
namespace {

using std::numbers::inv_sqrtpi;
using std::numbers::sqrt2;

// y[i] = f(x[i])
template <class F>
absl::StatusOr<Kernel> Map(const Graph& graph, const Node& node, F f) {
  const int64_t n = NumElements(OutType(graph, node).shape);
  return ForFloat(OutType(graph, node).dtype, [n, f](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    for (int64_t i = 0; i < n; ++i) {
      Out<T>(args)[i] = static_cast<T>(f(static_cast<double>(In<T>(args, 0)[i])));
    }
  });
}

// dx[i] = f(dy[i], x[i]), where x is the op's input or output, as its row says
template <class F>
absl::StatusOr<Kernel> Map2(const Graph& graph, const Node& node, F f) {
  const int64_t n = NumElements(OutType(graph, node).shape);
  return ForFloat(OutType(graph, node).dtype, [n, f](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    for (int64_t i = 0; i < n; ++i) {
      Out<T>(args)[i] = static_cast<T>(
          f(static_cast<double>(In<T>(args, 0)[i]), static_cast<double>(In<T>(args, 1)[i])));
    }
  });
}

double Logistic(double x) { return 1 / (1 + std::exp(-x)); }
double NormalCdf(double x) { return 0.5 * std::erfc(-x / sqrt2); }
double NormalPdf(double x) { return std::exp(-x * x / 2) * inv_sqrtpi / sqrt2; }

// The argument of the tanh approximation of gelu, 0.5 x (1 + tanh(u)), and its derivative.
constexpr double kGeluScale = sqrt2 * inv_sqrtpi;  // sqrt(2 / pi)
constexpr double kGeluCubic = 0.044715;
double GeluTanhArg(double x) { return kGeluScale * (x + kGeluCubic * x * x * x); }
double GeluTanhArgGrad(double x) { return kGeluScale * (1 + 3 * kGeluCubic * x * x); }

absl::StatusOr<Kernel> Relu(const Graph& g, const Node& n) {
  return Map(g, n, [](double x) { return x > 0 || std::isnan(x) ? x : 0; });
}
absl::StatusOr<Kernel> ReluGrad(const Graph& g, const Node& n) {
  return Map2(g, n, [](double dy, double y) { return y > 0 ? dy : 0; });
}

absl::StatusOr<Kernel> LeakyRelu(const Graph& g, const Node& n) {
  const double alpha = n.attrs.Float("alpha", 0.01);
  return Map(g, n, [=](double x) { return x < 0 ? alpha * x : x; });
}
absl::StatusOr<Kernel> LeakyReluGrad(const Graph& g, const Node& n) {
  const double alpha = n.attrs.Float("alpha", 0.01);
  return Map2(g, n, [=](double dy, double x) { return x < 0 ? alpha * dy : dy; });
}

absl::StatusOr<Kernel> Elu(const Graph& g, const Node& n) {
  const double alpha = n.attrs.Float("alpha", 1);
  return Map(g, n, [=](double x) { return x < 0 ? alpha * std::expm1(x) : x; });
}
absl::StatusOr<Kernel> EluGrad(const Graph& g, const Node& n) {
  const double alpha = n.attrs.Float("alpha", 1);
  return Map2(g, n, [=](double dy, double x) { return x < 0 ? dy * alpha * std::exp(x) : dy; });
}

absl::StatusOr<Kernel> Sigmoid(const Graph& g, const Node& n) { return Map(g, n, Logistic); }
absl::StatusOr<Kernel> SigmoidGrad(const Graph& g, const Node& n) {
  return Map2(g, n, [](double dy, double y) { return dy * y * (1 - y); });
}

absl::StatusOr<Kernel> Tanh(const Graph& g, const Node& n) {
  return Map(g, n, [](double x) { return std::tanh(x); });
}
absl::StatusOr<Kernel> TanhGrad(const Graph& g, const Node& n) {
  return Map2(g, n, [](double dy, double y) { return dy * (1 - y * y); });
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

absl::StatusOr<Kernel> Clip(const Graph& g, const Node& n) {
  const double min = n.attrs.Float("min", -kInfinity);
  const double max = n.attrs.Float("max", kInfinity);
  return Map(g, n, [=](double x) { return std::min(std::max(x, min), max); });
}
absl::StatusOr<Kernel> ClipGrad(const Graph& g, const Node& n) {
  const double min = n.attrs.Float("min", -kInfinity);
  const double max = n.attrs.Float("max", kInfinity);
  return Map2(g, n, [=](double dy, double x) { return min <= x && x <= max ? dy : 0; });
}

absl::StatusOr<Kernel> HardTanh(const Graph& g, const Node& n) {
  const double min = n.attrs.Float("min", -1), max = n.attrs.Float("max", 1);
  return Map(g, n, [=](double x) { return std::min(std::max(x, min), max); });
}
absl::StatusOr<Kernel> HardTanhGrad(const Graph& g, const Node& n) {
  const double min = n.attrs.Float("min", -1), max = n.attrs.Float("max", 1);
  return Map2(g, n, [=](double dy, double y) { return min < y && y < max ? dy : 0; });
}

absl::StatusOr<Kernel> HardSigmoid(const Graph& g, const Node& n) {
  const double alpha = n.attrs.Float("alpha", 0.2);
  const double beta = n.attrs.Float("beta", 0.5);
  return Map(g, n, [=](double x) { return std::min(std::max(alpha * x + beta, 0.0), 1.0); });
}
absl::StatusOr<Kernel> HardSigmoidGrad(const Graph& g, const Node& n) {
  const double alpha = n.attrs.Float("alpha", 0.2);
  const double beta = n.attrs.Float("beta", 0.5);
  return Map2(g, n, [=](double dy, double x) {
    const double inner = alpha * x + beta;
    return inner > 0 && inner < 1 ? alpha * dy : 0;
  });
}

absl::StatusOr<Kernel> HardSwish(const Graph& g, const Node& n) {
  return Map(g, n, [](double x) { return x * std::min(std::max(x / 6 + 0.5, 0.0), 1.0); });
}
absl::StatusOr<Kernel> HardSwishGrad(const Graph& g, const Node& n) {
  return Map2(g, n, [](double dy, double x) {
    if (x <= -3) return 0.0;
    return x >= 3 ? dy : dy * (x / 3 + 0.5);
  });
}

absl::StatusOr<Kernel> Silu(const Graph& g, const Node& n) {
  return Map(g, n, [](double x) { return x * Logistic(x); });
}
absl::StatusOr<Kernel> SiluGrad(const Graph& g, const Node& n) {
  return Map2(g, n,
              [](double dy, double x) { return dy * Logistic(x) * (1 + x * (1 - Logistic(x))); });
}

absl::StatusOr<Kernel> Softplus(const Graph& g, const Node& n) {
  return Map(g, n, [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); });
}
absl::StatusOr<Kernel> SoftplusGrad(const Graph& g, const Node& n) {
  return Map2(g, n, [](double dy, double x) { return dy * Logistic(x); });
}

absl::StatusOr<Kernel> Gelu(const Graph& g, const Node& n) {
  if (n.attrs.Str("approximate", "none") == "tanh") {
    return Map(g, n, [](double x) { return 0.5 * x * (1 + std::tanh(GeluTanhArg(x))); });
  }
  return Map(g, n, [](double x) { return x * NormalCdf(x); });
}
absl::StatusOr<Kernel> GeluGrad(const Graph& g, const Node& n) {
  if (n.attrs.Str("approximate", "none") == "tanh") {
    return Map2(g, n, [](double dy, double x) {
      const double t = std::tanh(GeluTanhArg(x));
      return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * GeluTanhArgGrad(x));
    });
  }
  return Map2(g, n, [](double dy, double x) { return dy * (NormalCdf(x) + x * NormalPdf(x)); });
}

absl::StatusOr<Kernel> Erf(const Graph& g, const Node& n) {
  return Map(g, n, [](double x) { return std::erf(x); });
}
absl::StatusOr<Kernel> ErfGrad(const Graph& g, const Node& n) {
  return Map2(g, n, [](double dy, double x) { return dy * 2 * inv_sqrtpi * std::exp(-x * x); });
}

absl::StatusOr<Kernel> Exp(const Graph& g, const Node& n) {
  return Map(g, n, [](double x) { return std::exp(x); });
}
absl::StatusOr<Kernel> Log(const Graph& g, const Node& n) {
  return Map(g, n, [](double x) { return std::log(x); });
}
absl::StatusOr<Kernel> Sqrt(const Graph& g, const Node& n) {
  return Map(g, n, [](double x) { return std::sqrt(x); });
}
absl::StatusOr<Kernel> Neg(const Graph& g, const Node& n) {
  return Map(g, n, [](double x) { return -x; });
}
absl::StatusOr<Kernel> Abs(const Graph& g, const Node& n) {
  return Map(g, n, [](double x) { return std::abs(x); });
}
absl::StatusOr<Kernel> Reciprocal(const Graph& g, const Node& n) {
  return Map(g, n, [](double x) { return 1 / x; });
}
absl::StatusOr<Kernel> Sign(const Graph& g, const Node& n) {
  return Map(g, n, [](double x) { return x > 0 ? 1 : x < 0 ? -1 : x; });
}
absl::StatusOr<Kernel> Floor(const Graph& g, const Node& n) {
  return Map(g, n, [](double x) { return std::floor(x); });
}
absl::StatusOr<Kernel> Ceil(const Graph& g, const Node& n) {
  return Map(g, n, [](double x) { return std::ceil(x); });
}
absl::StatusOr<Kernel> Round(const Graph& g, const Node& n) {  // halves to even
  return Map(g, n, [](double x) { return std::nearbyint(x); });
}
absl::StatusOr<Kernel> Sin(const Graph& g, const Node& n) {
  return Map(g, n, [](double x) { return std::sin(x); });
}
absl::StatusOr<Kernel> Cos(const Graph& g, const Node& n) {
  return Map(g, n, [](double x) { return std::cos(x); });
}
absl::StatusOr<Kernel> Atan(const Graph& g, const Node& n) {
  return Map(g, n, [](double x) { return std::atan(x); });
}
absl::StatusOr<Kernel> Scale(const Graph& g, const Node& n) {
  const double scale = n.attrs.Float("scale", 1);
  const double shift = n.attrs.Float("shift", 0);
  return Map(g, n, [=](double x) { return scale * x + shift; });
}

// Float to integer saturates; NaN becomes 0, or true for bool.
template <class To, class From>
To Convert(From x) {
  if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    if (std::isnan(x)) return 0;
    if (x <= static_cast<From>(std::numeric_limits<To>::min()))
      return std::numeric_limits<To>::min();
    if (x >= static_cast<From>(std::numeric_limits<To>::max()))
      return std::numeric_limits<To>::max();
  }
  return static_cast<To>(x);
}

// body(T()) for the C++ type that holds `dtype`; bool has its own tag type.
template <class Body>
absl::StatusOr<Kernel> ForAny(DType dtype, Body body) {
  switch (dtype) {
    case DType::kF32:
      return body(float());
    case DType::kF64:
      return body(double());
    case DType::kI32:
      return body(int32_t());
    case DType::kI64:
      return body(int64_t());
    case DType::kU8:
      return body(uint8_t());
    case DType::kBool:
      return body(bool());
    case DType::kBF16:
    case DType::kF16:
      break;
  }
  return absl::InternalError("unknown element type");
}

absl::StatusOr<Kernel> Cast(const Graph& graph, const Node& node) {
  const int64_t n = NumElements(OutType(graph, node).shape);
  const DType to = OutType(graph, node).dtype;
  return ForAny(InType(graph, node, 0).dtype, [=](auto from_zero) {
    return ForAny(to, [=](auto to_zero) -> absl::StatusOr<Kernel> {
      using From = decltype(from_zero);
      using To = decltype(to_zero);
      return KernelOf<To>([n](To, const KernelArgs& args) {
        for (int64_t i = 0; i < n; ++i) {
          if constexpr (std::is_same_v<To, bool>) {
            Out<bool>(args)[i] = In<From>(args, 0)[i] != From(0);
          } else {
            Out<To>(args)[i] = Convert<To>(In<From>(args, 0)[i]);
          }
        }
      });
    });
  });
}

}  // namespace

absl::Span<const KernelRow> Elementwise() {
  static constexpr KernelRow kRows[] = {
      {"Relu", Relu},
      {"ReluGrad", ReluGrad},
      {"LeakyRelu", LeakyRelu},
      {"LeakyReluGrad", LeakyReluGrad},
      {"Elu", Elu},
      {"EluGrad", EluGrad},
      {"Sigmoid", Sigmoid},
      {"SigmoidGrad", SigmoidGrad},
      {"Tanh", Tanh},
      {"TanhGrad", TanhGrad},
      {"Clip", Clip},
      {"ClipGrad", ClipGrad},
      {"HardTanh", HardTanh},
      {"HardTanhGrad", HardTanhGrad},
      {"HardSigmoid", HardSigmoid},
      {"HardSigmoidGrad", HardSigmoidGrad},
      {"HardSwish", HardSwish},
      {"HardSwishGrad", HardSwishGrad},
      {"Silu", Silu},
      {"SiluGrad", SiluGrad},
      {"Softplus", Softplus},
      {"SoftplusGrad", SoftplusGrad},
      {"Gelu", Gelu},
      {"GeluGrad", GeluGrad},
      {"Erf", Erf},
      {"ErfGrad", ErfGrad},
      {"Exp", Exp},
      {"Log", Log},
      {"Sqrt", Sqrt},
      {"Neg", Neg},
      {"Abs", Abs},
      {"Reciprocal", Reciprocal},
      {"Sign", Sign},
      {"Floor", Floor},
      {"Ceil", Ceil},
      {"Round", Round},
      {"Sin", Sin},
      {"Cos", Cos},
      {"Atan", Atan},
      {"Scale", Scale},
      {"Cast", Cast},
      {"Identity", CopyKernel},
  };
  return kRows;
}

}  // namespace ebb::device::ref
