#include "device/ref/window.h"

namespace ebb::device::ref {
namespace {

std::array<int64_t, 3> Unravel(int64_t i, const std::array<int64_t, 3>& shape) {
  return {i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]};
}

}  // namespace

Window Window::Of(const graph::Attrs& attrs, const graph::Shape& input, const graph::Shape& output,
                  absl::Span<const int64_t> kernel) {
  Window window;
  const size_t spatial = kernel.size();
  const auto strides = attrs.Ints("strides", std::vector<int64_t>(spatial, 1));
  const auto dilations = attrs.Ints("dilations", std::vector<int64_t>(spatial, 1));
  const auto pads = attrs.Ints("pads", std::vector<int64_t>(2 * spatial, 0));
  for (size_t s = 0; s < spatial; ++s) {
    const size_t d = 3 - spatial + s;
    window.input[d] = input[2 + s];
    window.output[d] = output[2 + s];
    window.kernel[d] = kernel[s];
    window.strides[d] = strides[s];
    window.dilations[d] = dilations[s];
    window.pads_begin[d] = pads[s];
    window.pads_end[d] = pads[spatial + s];
  }
  return window;
}

int64_t Window::InputAt(int64_t o, int64_t k) const {
  const std::array<int64_t, 3> out = Unravel(o, output);
  const std::array<int64_t, 3> tap = Unravel(k, kernel);
  int64_t at = 0;
  for (size_t d = 0; d < 3; ++d) {
    const int64_t i = out[d] * strides[d] + tap[d] * dilations[d] - pads_begin[d];
    if (i < 0 || i >= input[d]) return -1;
    at = at * input[d] + i;
  }
  return at;
}

}  // namespace ebb::device::ref
