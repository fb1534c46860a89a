// Layer normalisation: every row of contiguous elements by its own mean and deviation.
#include "device/cpu/common.h"
#include "device/cpu/rows.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

EBB_CLONES void NormalizeRow(const float* x, const float* scale, const float* bias, float* y,
                             int64_t n, Moments moments) {
  const auto [mean, inverse] = moments;
  if (bias == nullptr) {
    EBB_IVDEP
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * scale[i];
  } else {
    EBB_IVDEP
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * scale[i] + bias[i];
  }
}

absl::StatusOr<Kernel> MakeLayerNorm(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const NormRows rows = NormRowsOf(In(graph, node).type.shape, node.attrs.Int("axis", 0));
  const double epsilon = node.attrs.Float("epsilon", 1e-5);
  return MakeKernel([rows, epsilon](const KernelArgs& args) {
    for (int64_t r = 0; r < rows.rows; ++r) {
      const float* x = InPtr<float>(args, 0) + r * rows.size;
      const Moments moments = MomentsOf(x, rows.size, epsilon);
      NormalizeRow(x, InPtr<float>(args, 1), InPtr<float>(args, 2),
                   OutPtr<float>(args) + r * rows.size, rows.size, moments);
      OutPtr<float>(args, 1)[r] = moments.mean;
      OutPtr<float>(args, 2)[r] = moments.inverse;
    }
    return absl::OkStatus();
  });
}

// One row: dx, and its share of the sums over rows. With h = (x - mean) inverse and g = dy scale:
// dx = inverse (g - mean(g) - h mean(g h)).
EBB_CLONES void GradRow(const float* dy, const float* x, const float* scale, float mean,
                        float inverse, float* dx, int64_t n, float* dscale, float* dbias) {
  const double count = static_cast<double>(n);
  const double sum = BlockedSum(n, [dy, scale](int64_t i) { return dy[i] * scale[i]; });
  const double dot = BlockedSum(n, [dy, x, scale, mean, inverse](int64_t i) {
    return dy[i] * scale[i] * ((x[i] - mean) * inverse);
  });
  const float shift = static_cast<float>(sum / count);
  const float slope = static_cast<float>(dot / count);
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) {
    const float h = (x[i] - mean) * inverse;
    const float d = dy[i];
    dscale[i] += d * h;
    dbias[i] += d;
    dx[i] = inverse * ((d * scale[i] - shift) - h * slope);
  }
}

absl::StatusOr<Kernel> MakeGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const NormRows rows = NormRowsOf(In(graph, node, 1).type.shape, node.attrs.Int("axis", 0));
  const auto run = [rows](const KernelArgs& args) {
    const int64_t n = rows.size;
    SumOverRows(rows, 2, args, [&](int64_t r, float* part) {
      GradRow(InPtr<float>(args, 0) + r * n, InPtr<float>(args, 1) + r * n, InPtr<float>(args, 2),
              InPtr<float>(args, 3)[r], InPtr<float>(args, 4)[r], OutPtr<float>(args) + r * n, n,
              part, part + n);
    });
    return absl::OkStatus();
  };
  return MakeKernel(run, RowSumsWorkspace(rows, 2));
}

constexpr KernelRow kRows[] = {{"LayerNorm", MakeLayerNorm}, {"LayerNormGrad", MakeGrad}};

}  // namespace

absl::Span<const KernelRow> LayerNormKernels() { return kRows; }

}  // namespace ebb::device::cpu
