#include "device/cpu/average.h"

#include <algorithm>

#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

EBB_CLONES void MoveAverage(float* ema, const float* p, int64_t n, float keep, float take) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) ema[i] = keep * ema[i] + take * p[i];
}

}  // namespace

Average::Average(const Graph& graph, const Node& node, size_t i)
    : operand(HasInput(node, i) ? static_cast<int>(i) : -1),
      n(NumElements(In(graph, node, 0).type.shape)),
      decay(node.attrs.Float("ema_decay", 0)) {}

void Average::Move(const KernelArgs& args) const {
  if (operand < 0) return;
  const auto i = static_cast<size_t>(operand);
  const float* p = MutablePtr<float>(args, 0);
  if (InPtr<double>(args, 2)[1] <= 1) {
    std::copy_n(p, n, MutablePtr<float>(args, i));
    return;
  }
  MoveAverage(MutablePtr<float>(args, i), p, n, static_cast<float>(decay),
              static_cast<float>(1 - decay));
}

}  // namespace ebb::device::cpu
