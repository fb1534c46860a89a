// Root mean square normalisation: every row of contiguous elements by its own scale. Sums over a
// row run over fixed lanes; those over rows (the gradient of the weight) in float over blocks of
// rows, then in double.
#include <algorithm>
#include <cmath>

#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

constexpr int64_t kBlockRows = 64;

struct Form {
  int64_t rows = 0;
  int64_t size = 1;  // elements that are normalised together
};

Form FormOf(const Shape& x, int64_t axis) {
  Form form;
  for (size_t d = static_cast<size_t>(axis); d < x.size(); ++d) form.size *= x[d];
  form.rows = NumElements(x) / form.size;
  return form;
}

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
  const Form form = FormOf(In(graph, node).type.shape, node.attrs.Int("axis", 0));
  const double epsilon = node.attrs.Float("epsilon", 1e-5);
  return MakeKernel([form, epsilon](const KernelArgs& args) {
    for (int64_t r = 0; r < form.rows; ++r) {
      NormalizeRow(InPtr<float>(args, 0) + r * form.size, InPtr<float>(args, 1),
                   OutPtr<float>(args) + r * form.size, form.size, epsilon,
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

struct GradOp {
  Form form;

  // Workspace: a row of double, one of float.
  Bytes workspace() const {
    return Bytes(form.size * static_cast<int64_t>(sizeof(double) + sizeof(float)));
  }

  absl::Status operator()(const KernelArgs& args) const {
    const int64_t n = form.size;
    double* total = static_cast<double*>(args.workspace);
    float* dscale = reinterpret_cast<float*>(total + n);
    std::fill_n(total, n, 0.0);
    for (int64_t first = 0; first < form.rows; first += kBlockRows) {
      std::fill_n(dscale, n, 0.0f);
      for (int64_t r = first; r < std::min(form.rows, first + kBlockRows); ++r) {
        GradRow(InPtr<float>(args, 0) + r * n, InPtr<float>(args, 1) + r * n, InPtr<float>(args, 2),
                InPtr<float>(args, 3)[r], OutPtr<float>(args) + r * n, n, dscale);
      }
      for (int64_t i = 0; i < n; ++i) total[i] += static_cast<double>(dscale[i]);
    }
    for (int64_t i = 0; i < n; ++i) OutPtr<float>(args, 1)[i] = static_cast<float>(total[i]);
    return absl::OkStatus();
  }
};

absl::StatusOr<Kernel> MakeGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const GradOp op{FormOf(In(graph, node, 1).type.shape, node.attrs.Int("axis", 0))};
  return MakeKernel(op, op.workspace());
}

constexpr KernelRow kRows[] = {{"RmsNorm", MakeRmsNorm}, {"RmsNormGrad", MakeGrad}};

}  // namespace

absl::Span<const KernelRow> RmsNormKernels() { return kRows; }

}  // namespace ebb::device::cpu
