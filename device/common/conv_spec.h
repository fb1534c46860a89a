// A convolution or one of its gradients as plain numbers, for whatever library computes it.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "device/common/operands.h"
#include "device/common/precision.h"

namespace ebb::device {

enum class ConvKind { kForward, kGradInput, kGradWeight };

struct ConvSpec {
  ConvKind kind = ConvKind::kForward;
  Precision precision = Precision::kF32;    // of x, w and y
  std::vector<int64_t> x;                   // N, C, S (1 to 3 dimensions); no dimension is 0
  std::vector<int64_t> w;                   // M, C / groups, K
  std::vector<int64_t> y;                   // N, M, S
  std::vector<int64_t> strides, dilations;  // dilation 1 = dense
  std::vector<int64_t> pads_begin, pads_end;
  int64_t groups = 1;
  bool bias = false;           // kForward only
  bool channels_last = false;  // order of x and y in memory; w is always plain

  // A 1x1 convolution in channels-last order is a product of matrices [positions, channels].
  bool IsProduct() const;
};

// Of a Conv, ConvGradInput or ConvGradWeight node without empty operands. Unimplemented when x and
// y lie in different orders.
absl::StatusOr<ConvSpec> ConvSpecOf(const Graph& graph, const Node& node);

}  // namespace ebb::device
