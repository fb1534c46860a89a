// Local response normalisation across channels: where windows are in memory, and powers.
#pragma once

#include <cmath>

#include "device/common/operands.h"
#include "device/math/divisor.h"
#include "device/math/scalar.h"

namespace ebb::device {

// In either layout a step of one channel is a fixed distance in memory.
struct LrnForm {
  int64_t outer = 0;
  int64_t block = 0;  // channels * distance
  Divisor channels = 1;
  Divisor distance = 1;
  int64_t size = 1;
  int64_t before = 0, after = 0;
  float alpha = 0, beta = 0, bias = 0;  // alpha is already divided by size
};

inline LrnForm LrnFormOf(const Graph& graph, const Node& node) {
  const Value& x = In(graph, node);
  LrnForm form;
  int64_t spatial = 1;
  for (size_t d = 2; d < x.type.shape.size(); ++d) spatial *= x.type.shape[d];
  const bool last = x.layout == Layout::kChannelsLast;
  form.outer = x.type.shape[0] * (last ? spatial : 1);
  form.distance = last ? 1 : spatial;
  form.channels = x.type.shape[1];
  form.block = form.channels * form.distance;
  form.size = node.attrs.Int("size", 1);
  form.before = (form.size - 1) / 2;
  form.after = form.size - 1 - form.before;
  form.alpha = static_cast<float>(node.attrs.Float("alpha", 1e-4) / static_cast<double>(form.size));
  form.beta = static_cast<float>(node.attrs.Float("beta", 0.75));
  form.bias = static_cast<float>(node.attrs.Float("bias", 1));
  return form;
}

// s^-beta; the exponent that every model has needs no pow().
struct PowerThreeQuarters {
  explicit PowerThreeQuarters(float) {}
  EBB_INLINE float operator()(float s) const {
    const float root = std::sqrt(s);
    return 1.0f / (root * std::sqrt(root));
  }
};
struct PowerAny {
  explicit PowerAny(float beta) : beta(beta) {}
  EBB_INLINE float operator()(float s) const { return std::pow(s, -beta); }
  float beta;
};

}  // namespace ebb::device
