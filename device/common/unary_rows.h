// The rows of elementwise ops of one input, the same on every device: which functor an op is.
#pragma once

#include "absl/types/span.h"
#include "device/common/dispatch.h"
#include "device/math/unary.h"

namespace ebb::device {

// `Makers` has the device's factories of a functor's node: Unary<F>(graph, node) and
// Gradient<F>(graph, node), and Cast(graph, node).
template <class Row, class Makers>
class UnaryRows {
  static auto Gelu(const Graph& graph, const Node& node) {
    return IsTanh(node) ? Makers::template Unary<math::GeluTanh>(graph, node)
                        : Makers::template Unary<math::GeluErf>(graph, node);
  }
  static auto GeluGrad(const Graph& graph, const Node& node) {
    return IsTanh(node) ? Makers::template Gradient<math::GeluTanh>(graph, node)
                        : Makers::template Gradient<math::GeluErf>(graph, node);
  }
  static bool IsTanh(const Node& node) { return node.attrs.Str("approximate", "none") == "tanh"; }

 public:
  static absl::Span<const Row> Rows() {
    static constexpr Row kRows[] = {
        {"Abs", Makers::template Unary<math::Abs>},
        {"Atan", Makers::template Unary<math::AtanOp>},
        {"Ceil", Makers::template Unary<math::Ceil>},
        {"Cos", Makers::template Unary<math::CosOp>},
        {"Floor", Makers::template Unary<math::Floor>},
        {"Round", Makers::template Unary<math::Round>},
        {"Sin", Makers::template Unary<math::SinOp>},
        {"Cast", Makers::Cast},
        {"Clip", Makers::template Unary<math::Clip>},
        {"ClipGrad", Makers::template Gradient<math::Clip>},
        {"Elu", Makers::template Unary<math::Elu>},
        {"EluGrad", Makers::template Gradient<math::Elu>},
        {"Erf", Makers::template Unary<math::ErfOp>},
        {"ErfGrad", Makers::template Gradient<math::ErfOp>},
        {"Exp", Makers::template Unary<math::ExpOp>},
        {"Gelu", Gelu},
        {"GeluGrad", GeluGrad},
        {"HardSigmoid", Makers::template Unary<math::HardSigmoid>},
        {"HardSigmoidGrad", Makers::template Gradient<math::HardSigmoid>},
        {"HardTanh", Makers::template Unary<math::HardTanh>},
        {"HardTanhGrad", Makers::template Gradient<math::HardTanh>},
        {"HardSwish", Makers::template Unary<math::HardSwish>},
        {"HardSwishGrad", Makers::template Gradient<math::HardSwish>},
        {"LeakyRelu", Makers::template Unary<math::LeakyRelu>},
        {"LeakyReluGrad", Makers::template Gradient<math::LeakyRelu>},
        {"Log", Makers::template Unary<math::LogOp>},
        {"Neg", Makers::template Unary<math::Neg>},
        {"Reciprocal", Makers::template Unary<math::Reciprocal>},
        {"Relu", Makers::template Unary<math::Relu>},
        {"ReluGrad", Makers::template Gradient<math::ReluGrad>},
        {"Scale", Makers::template Unary<math::ScaleOp>},
        {"Sigmoid", Makers::template Unary<math::SigmoidOp>},
        {"SigmoidGrad", Makers::template Gradient<math::SigmoidOp>},
        {"Silu", Makers::template Unary<math::Silu>},
        {"SiluGrad", Makers::template Gradient<math::Silu>},
        {"Sign", Makers::template Unary<math::Sign>},
        {"Softplus", Makers::template Unary<math::Softplus>},
        {"SoftplusGrad", Makers::template Gradient<math::Softplus>},
        {"Sqrt", Makers::template Unary<math::SqrtOp>},
        {"Tanh", Makers::template Unary<math::TanhOp>},
        {"TanhGrad", Makers::template Gradient<math::TanhOp>},
    };
    return kRows;
  }
};

}  // namespace ebb::device
