// Layer normalisation: every row of contiguous elements by its own mean and deviation. Sums over a
// row run over fixed lanes; those over rows (the gradients of scale and bias) in float over blocks
// of rows, then in double.
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

EBB_CLONES void NormalizeRow(const float* x, const float* scale, const float* bias, float* y,
                             int64_t n, double epsilon, float* mean_out, float* inverse_out) {
  const double count = static_cast<double>(n);
  const double exact = BlockedSum(n, [x](int64_t i) { return x[i]; }) / count;
  const float mean = static_cast<float>(exact);
  const double square = BlockedSum(n, [x, mean](int64_t i) {
    const float d = x[i] - mean;
    return d * d;
  });
  // The rounding of `mean` is undone by the second term.
  const double off = exact - static_cast<double>(mean);
  const double variance = std::max(square / count - off * off, 0.0);
  const float inverse = static_cast<float>(1.0 / std::sqrt(variance + epsilon));
  if (bias == nullptr) {
    EBB_IVDEP
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * scale[i];
  } else {
    EBB_IVDEP
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * scale[i] + bias[i];
  }
  *mean_out = mean;
  *inverse_out = inverse;
}

absl::StatusOr<Kernel> MakeLayerNorm(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const Form form = FormOf(In(graph, node).type.shape, node.attrs.Int("axis", 0));
  const double epsilon = node.attrs.Float("epsilon", 1e-5);
  return MakeKernel([form, epsilon](const KernelArgs& args) {
    for (int64_t r = 0; r < form.rows; ++r) {
      NormalizeRow(InPtr<float>(args, 0) + r * form.size, InPtr<float>(args, 1),
                   InPtr<float>(args, 2), OutPtr<float>(args) + r * form.size, form.size, epsilon,
                   OutPtr<float>(args, 1) + r, OutPtr<float>(args, 2) + r);
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

struct GradOp {
  Form form;

  // Workspace: two rows of double, two of float.
  Bytes workspace() const {
    return Bytes(form.size * static_cast<int64_t>(2 * sizeof(double) + 2 * sizeof(float)));
  }

  absl::Status operator()(const KernelArgs& args) const {
    const int64_t n = form.size;
    double* total_scale = static_cast<double*>(args.workspace);
    double* total_bias = total_scale + n;
    float* dscale = reinterpret_cast<float*>(total_bias + n);
    float* dbias = dscale + n;
    std::fill_n(total_scale, 2 * n, 0.0);
    for (int64_t first = 0; first < form.rows; first += kBlockRows) {
      std::fill_n(dscale, 2 * n, 0.0f);
      for (int64_t r = first; r < std::min(form.rows, first + kBlockRows); ++r) {
        GradRow(InPtr<float>(args, 0) + r * n, InPtr<float>(args, 1) + r * n, InPtr<float>(args, 2),
                InPtr<float>(args, 3)[r], InPtr<float>(args, 4)[r], OutPtr<float>(args) + r * n, n,
                dscale, dbias);
      }
      for (int64_t i = 0; i < n; ++i) {
        total_scale[i] += static_cast<double>(dscale[i]);
        total_bias[i] += static_cast<double>(dbias[i]);
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      OutPtr<float>(args, 1)[i] = static_cast<float>(total_scale[i]);
      OutPtr<float>(args, 2)[i] = static_cast<float>(total_bias[i]);
    }
    return absl::OkStatus();
  }
};

absl::StatusOr<Kernel> MakeGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const GradOp op{FormOf(In(graph, node, 1).type.shape, node.attrs.Int("axis", 0))};
  return MakeKernel(op, op.workspace());
}

constexpr KernelRow kRows[] = {{"LayerNorm", MakeLayerNorm}, {"LayerNormGrad", MakeGrad}};

}  // namespace

absl::Span<const KernelRow> LayerNormKernels() { return kRows; }

}  // namespace ebb::device::cpu
