// Group normalisation: a sample's group is one run of contiguous elements, with a scale and a bias
// a channel. Sums run over fixed lanes, those over samples in their order.
#include <algorithm>
#include <cmath>

#include "device/cpu/common.h"
#include "device/cpu/rows.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

EBB_CLONES void NormalizeChannel(const float* x, float* y, int64_t n, Moments m, float scale,
                                 float bias) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m.mean) * m.inverse * scale + bias;
}

absl::StatusOr<Kernel> MakeGroupNorm(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const GroupForm form = GroupFormOf(node, In(graph, node).type.shape);
  const double epsilon = node.attrs.Float("epsilon", 1e-5);
  return MakeKernel([form, epsilon](const KernelArgs& args) {
    const float* x = InPtr<float>(args);
    float* y = OutPtr<float>(args);
    for (int64_t r = 0; r < form.samples * form.groups; ++r) {
      const Moments moments = MomentsOf(x, form.size(), epsilon);
      const int64_t first = r % form.groups * form.channels;
      for (int64_t c = first; c < first + form.channels; ++c) {
        NormalizeChannel(x, y, form.positions, moments, InPtr<float>(args, 1)[c],
                         InPtr<float>(args, 2)[c]);
        x += form.positions;
        y += form.positions;
      }
      OutPtr<float>(args, 1)[r] = moments.mean;
      OutPtr<float>(args, 2)[r] = moments.inverse;
    }
    return absl::OkStatus();
  });
}

// With h = (x - mean) inverse: sum of dy, and of dy h.
EBB_CLONES void ChannelSums(const float* dy, const float* x, int64_t n, Moments m, double* sum,
                            double* dot) {
  *sum = BlockedSum(n, [dy](int64_t i) { return dy[i]; });
  *dot = BlockedSum(n, [dy, x, m](int64_t i) { return dy[i] * ((x[i] - m.mean) * m.inverse); });
}

EBB_CLONES void GradChannel(const float* dy, const float* x, float* dx, int64_t n, Moments m,
                            float scale, float shift, float slope) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) {
    const float h = (x[i] - m.mean) * m.inverse;
    dx[i] = m.inverse * ((dy[i] * scale - shift) - h * slope);
  }
}

struct GradOp {
  GroupForm form;

  // Workspace: the gradients of scale and bias in double.
  Bytes workspace() const {
    return Bytes(form.all_channels() * static_cast<int64_t>(2 * sizeof(double)));
  }

  absl::Status operator()(const KernelArgs& args) const {
    auto* dscale = static_cast<double*>(args.workspace);
    double* dbias = dscale + form.all_channels();
    std::fill_n(dscale, 2 * form.all_channels(), 0.0);
    for (int64_t r = 0; r < form.samples * form.groups; ++r) Group(args, r, dscale, dbias);
    for (int64_t c = 0; c < form.all_channels(); ++c) {
      OutPtr<float>(args, 1)[c] = static_cast<float>(dscale[c]);
      OutPtr<float>(args, 2)[c] = static_cast<float>(dbias[c]);
    }
    return absl::OkStatus();
  }

  void Group(const KernelArgs& args, int64_t r, double* dscale, double* dbias) const {
    const int64_t n = form.positions;
    const float* dy = InPtr<float>(args, 0) + r * form.size();
    const float* x = InPtr<float>(args, 1) + r * form.size();
    float* dx = OutPtr<float>(args) + r * form.size();
    const float* scale = InPtr<float>(args, 2);
    const Moments moments{InPtr<float>(args, 3)[r], InPtr<float>(args, 4)[r]};
    const int64_t first = r % form.groups * form.channels;
    double total = 0, dots = 0;
    for (int64_t k = 0; k < form.channels; ++k) {
      double sum, dot;
      ChannelSums(dy + k * n, x + k * n, n, moments, &sum, &dot);
      const int64_t c = first + k;
      dbias[c] += sum;
      dscale[c] += dot;
      total += sum * static_cast<double>(scale[c]);
      dots += dot * static_cast<double>(scale[c]);
    }
    const auto count = static_cast<double>(form.size());
    for (int64_t k = 0; k < form.channels; ++k) {
      GradChannel(dy + k * n, x + k * n, dx + k * n, n, moments, scale[first + k],
                  static_cast<float>(total / count), static_cast<float>(dots / count));
    }
  }
};

absl::StatusOr<Kernel> MakeGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const GradOp op{GroupFormOf(node, In(graph, node, 1).type.shape)};
  return MakeKernel(op, op.workspace());
}

constexpr KernelRow kRows[] = {{"GroupNorm", MakeGroupNorm}, {"GroupNormGrad", MakeGrad}};

}  // namespace

absl::Span<const KernelRow> GroupNormKernels() { return kRows; }

}  // namespace ebb::device::cpu
