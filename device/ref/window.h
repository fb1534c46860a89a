// Sliding windows over up to three spatial dimensions: what convolution and pooling share. Missing
// dimensions are padded with ones in front, so that every loop is over three.
#pragma once

#include <array>
#include <cstdint>

#include "graph/attrs.h"
#include "graph/types.h"

namespace ebb::device::ref {

struct Window {
  std::array<int64_t, 3> input{1, 1, 1};
  std::array<int64_t, 3> output{1, 1, 1};
  std::array<int64_t, 3> kernel{1, 1, 1};
  std::array<int64_t, 3> strides{1, 1, 1};
  std::array<int64_t, 3> dilations{1, 1, 1};
  std::array<int64_t, 3> pads_begin{0, 0, 0};
  std::array<int64_t, 3> pads_end{0, 0, 0};

  // From shapes [N,C,S...] and a kernel of length S.
  static Window Of(const graph::Attrs& attrs, const graph::Shape& input, const graph::Shape& output,
                   absl::Span<const int64_t> kernel);

  int64_t InputSize() const { return input[0] * input[1] * input[2]; }
  int64_t OutputSize() const { return output[0] * output[1] * output[2]; }
  int64_t KernelSize() const { return kernel[0] * kernel[1] * kernel[2]; }

  // Calls f(o, k, i) for every output position o and kernel position k (row-major, in this order)
  // whose input position i is inside the input.
  template <class F>
  void ForEach(F f) const {
    for (int64_t o = 0; o < OutputSize(); ++o) {
      for (int64_t k = 0; k < KernelSize(); ++k) {
        if (const int64_t i = InputAt(o, k); i >= 0) f(o, k, i);
      }
    }
  }
  // Where output position o meets the input under kernel position k; -1 when that is padding.
  int64_t InputAt(int64_t o, int64_t k) const;
};

}  // namespace ebb::device::ref
