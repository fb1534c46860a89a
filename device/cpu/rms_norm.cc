// Root mean square normalisation: every row of contiguous elements by its own scale.
#include <cmath>

#include "device/cpu/common.h"
#include "device/cpu/rows.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

EBB_CLONES void NormalizeRow(const float* x, const float* scale, float* y, int64_t n,
                             double epsilon, float* inverse_out) {
  const double square = BlockedSum(n, [x](int64_t i) { return x[i] * x[i]; });
  const float inverse =
      static_cast<float>(1.0 / std::sqrt(square / static_cast<double>(n) + epsilon));
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * inverse * scale[i];
  *inverse_out = inverse;
}

absl::StatusOr<Kernel> MakeRmsNorm(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const NormRows rows = NormRowsOf(In(graph, node).type.shape, node.attrs.Int("axis", 0));
  const double epsilon = node.attrs.Float("epsilon", 1e-5);
  return MakeKernel([rows, epsilon](const KernelArgs& args) {
    for (int64_t r = 0; r < rows.rows; ++r) {
      NormalizeRow(InPtr<float>(args, 0) + r * rows.size, InPtr<float>(args, 1),
                   OutPtr<float>(args) + r * rows.size, rows.size, epsilon,
                   OutPtr<float>(args, 1) + r);
    }
    return absl::OkStatus();
  });
}

// One row: dx, and its share of the sum over rows. With h = x inverse and g = dy scale:
// dx = inverse (g - h mean(g h)).
EBB_CLONES void GradRow(const float* dy, const float* x, const float* scale, float inverse,
                        float* dx, int64_t n, float* dscale) {
  const double dot = BlockedSum(
      n, [dy, x, scale, inverse](int64_t i) { return dy[i] * scale[i] * (x[i] * inverse); });
  const float slope = static_cast<float>(dot / static_cast<double>(n));
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) {
    const float h = x[i] * inverse;
    const float d = dy[i];
    dscale[i] += d * h;
    dx[i] = inverse * (d * scale[i] - h * slope);
  }
}

absl::StatusOr<Kernel> MakeGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const NormRows rows = NormRowsOf(In(graph, node, 1).type.shape, node.attrs.Int("axis", 0));
  const auto run = [rows](const KernelArgs& args) {
    const int64_t n = rows.size;
    SumOverRows(rows, 1, args, [&](int64_t r, float* part) {
      GradRow(InPtr<float>(args, 0) + r * n, InPtr<float>(args, 1) + r * n, InPtr<float>(args, 2),
              InPtr<float>(args, 3)[r], OutPtr<float>(args) + r * n, n, part);
    });
    return absl::OkStatus();
  };
  return MakeKernel(run, RowSumsWorkspace(rows, 1));
}

constexpr KernelRow kRows[] = {{"RmsNorm", MakeRmsNorm}, {"RmsNormGrad", MakeGrad}};

}  // namespace

absl::Span<const KernelRow> RmsNormKernels() { return kRows; }

}  // namespace ebb::device::cpu
