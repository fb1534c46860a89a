// Softmax and LogSoftmax along one axis, and their gradients. Rows along the last axis run over the
// vector; other axes run a strip of neighbouring rows at once.
#include "device/cpu/softmax.h"

#include <algorithm>

#include "device/common/axis_rows.h"
#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

EBB_INLINE float RowMax(const float* x, int64_t n) {
  float best[kLanes];
  for (int l = 0; l < kLanes; ++l) best[l] = x[0];
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) best[l] = x[i + l] > best[l] ? x[i + l] : best[l];
  }
  float m = best[0];
  for (int l = 1; l < kLanes; ++l) m = best[l] > m ? best[l] : m;
  for (; i < n; ++i) m = x[i] > m ? x[i] : m;
  return m;
}

// What a row is of which every element is -infinity: not a number, or zeros.
enum class Masked { kNan, kZero };

EBB_CLONES void SoftmaxRow(const float* x, float* y, int64_t n, Masked masked) {
  const float m = RowMax(x, n);
  if (masked == Masked::kZero && m == -INFINITY) {
    std::fill_n(y, n, 0.0f);
    return;
  }
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) y[i] = Exp(x[i] - m);
  const double sum = BlockedSum(n, [y](int64_t i) { return y[i]; });
  const float inverse = static_cast<float>(1.0 / sum);
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) y[i] *= inverse;
}

EBB_CLONES void LogSoftmaxRowImpl(const float* x, float* y, int64_t n) {
  const float m = RowMax(x, n);
  const double sum = BlockedSum(n, [x, m](int64_t i) { return Exp(x[i] - m); });
  const float shift = static_cast<float>(std::log(sum));
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m) - shift;
}

EBB_CLONES void SoftmaxGradRow(const float* dy, const float* y, float* dx, int64_t n) {
  const float dot = static_cast<float>(BlockedSum(n, [dy, y](int64_t i) { return dy[i] * y[i]; }));
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) dx[i] = (dy[i] - dot) * y[i];
}

EBB_CLONES void LogSoftmaxGradRow(const float* dy, const float* y, float* dx, int64_t n) {
  const float sum = static_cast<float>(BlockedSum(n, [dy](int64_t i) { return dy[i]; }));
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] - Exp(y[i]) * sum;
}

// ---- Strided rows: `width` <= kStrip of them side by side.

constexpr int64_t kStrip = 64;
enum class Output { kProbability, kLog };

template <Output kOutput>
EBB_CLONES void SoftmaxStrip(const float* x, float* y, int64_t length, int64_t stride,
                             int64_t width, Masked masked) {
  float m[kStrip];
  float sum[kStrip];
  for (int64_t c = 0; c < width; ++c) {
    m[c] = x[c];
    sum[c] = 0;
  }
  for (int64_t i = 1; i < length; ++i) {
    EBB_IVDEP
    for (int64_t c = 0; c < width; ++c) m[c] = x[i * stride + c] > m[c] ? x[i * stride + c] : m[c];
  }
  for (int64_t c = 0; c < width; ++c) {
    if (masked == Masked::kZero && m[c] == -INFINITY) m[c] = 0;
  }
  for (int64_t i = 0; i < length; ++i) {
    EBB_IVDEP
    for (int64_t c = 0; c < width; ++c) sum[c] += Exp(x[i * stride + c] - m[c]);
  }
  for (int64_t c = 0; c < width; ++c) {
    const float inverse = masked == Masked::kZero && sum[c] == 0 ? 0.0f : 1.0f / sum[c];
    sum[c] = kOutput == Output::kLog ? std::log(sum[c]) : inverse;
  }
  for (int64_t i = 0; i < length; ++i) {
    EBB_IVDEP
    for (int64_t c = 0; c < width; ++c) {
      const float d = x[i * stride + c] - m[c];
      y[i * stride + c] = kOutput == Output::kLog ? d - sum[c] : Exp(d) * sum[c];
    }
  }
}

template <Output kOutput>
EBB_CLONES void GradStrip(const float* dy, const float* y, float* dx, int64_t length,
                          int64_t stride, int64_t width) {
  float sum[kStrip];
  for (int64_t c = 0; c < width; ++c) sum[c] = 0;
  for (int64_t i = 0; i < length; ++i) {
    EBB_IVDEP
    for (int64_t c = 0; c < width; ++c) {
      const int64_t at = i * stride + c;
      sum[c] += kOutput == Output::kLog ? dy[at] : dy[at] * y[at];
    }
  }
  for (int64_t i = 0; i < length; ++i) {
    EBB_IVDEP
    for (int64_t c = 0; c < width; ++c) {
      const int64_t at = i * stride + c;
      dx[at] = kOutput == Output::kLog ? dy[at] - Exp(y[at]) * sum[c] : (dy[at] - sum[c]) * y[at];
    }
  }
}

template <Output kOutput>
absl::StatusOr<Kernel> MakeSoftmax(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const AxisForm form = AxisFormOf(In(graph, node).type.shape, node.attrs.Int("axis", 0));
  const Masked masked = node.attrs.Int("zero_masked", 0) != 0 ? Masked::kZero : Masked::kNan;
  return MakeKernel([form, masked](const KernelArgs& args) {
    if (form.length == 0) return absl::OkStatus();
    for (int64_t o = 0; o < form.outer; ++o) {
      const float* x = InPtr<float>(args) + o * form.length * form.inner;
      float* y = OutPtr<float>(args) + o * form.length * form.inner;
      if (form.inner == 1) {
        if (kOutput == Output::kLog) {
          LogSoftmaxRow(x, y, form.length);
        } else {
          SoftmaxRow(x, y, form.length, masked);
        }
        continue;
      }
      for (int64_t c = 0; c < form.inner; c += kStrip) {
        SoftmaxStrip<kOutput>(x + c, y + c, form.length, form.inner,
                              std::min(kStrip, form.inner - c), masked);
      }
    }
    return absl::OkStatus();
  });
}

template <Output kOutput>
absl::StatusOr<Kernel> MakeGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const AxisForm form = AxisFormOf(In(graph, node).type.shape, node.attrs.Int("axis", 0));
  return MakeKernel([form](const KernelArgs& args) {
    for (int64_t o = 0; o < form.outer; ++o) {
      const int64_t at = o * form.length * form.inner;
      const float* dy = InPtr<float>(args, 0) + at;
      const float* y = InPtr<float>(args, 1) + at;
      float* dx = OutPtr<float>(args) + at;
      if (form.inner == 1) {
        (kOutput == Output::kLog ? LogSoftmaxGradRow : SoftmaxGradRow)(dy, y, dx, form.length);
        continue;
      }
      for (int64_t c = 0; c < form.inner; c += kStrip) {
        GradStrip<kOutput>(dy + c, y + c, dx + c, form.length, form.inner,
                           std::min(kStrip, form.inner - c));
      }
    }
    return absl::OkStatus();
  });
}

constexpr KernelRow kRows[] = {
    {"LogSoftmax", MakeSoftmax<Output::kLog>},
    {"LogSoftmaxGrad", MakeGrad<Output::kLog>},
    {"Softmax", MakeSoftmax<Output::kProbability>},
    {"SoftmaxGrad", MakeGrad<Output::kProbability>},
};

}  // namespace

void LogSoftmaxRow(const float* x, float* y, int64_t n) { LogSoftmaxRowImpl(x, y, n); }

void LogSoftmaxStrided(const float* x, float* y, int64_t length, int64_t inner) {
  for (int64_t c = 0; c < inner; c += kStrip) {
    SoftmaxStrip<Output::kLog>(x + c, y + c, length, inner, std::min(kStrip, inner - c),
                               Masked::kNan);
  }
}

absl::Span<const KernelRow> SoftmaxKernels() { return kRows; }

}  // namespace ebb::device::cpu
