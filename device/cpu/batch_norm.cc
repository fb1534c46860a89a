// Batch normalisation over [N,C,S], plain or channels last. Moments are merged in double from
// blocks that stay in the first-level cache (Chan et al. 1979), so that x is read from memory once
// for both.
#include <algorithm>
#include <cmath>

#include "device/common/batch_form.h"
#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

constexpr int64_t kStrip = 256;
constexpr int64_t kBlockRows = 32;
constexpr int64_t kBlock = 2048;

struct Moments {
  double count = 0;
  double mean = 0;
  double m2 = 0;  // sum of squared distances from the mean
};

EBB_INLINE void Merge(Moments& total, double count, double mean, double m2) {
  const double sum = total.count + count;
  const double delta = mean - total.mean;
  total.mean += delta * (count / sum);
  total.m2 += m2 + delta * delta * (total.count * count / sum);
  total.count = sum;
}

EBB_CLONES void RunMoments(const float* x, int64_t n, Moments* total) {
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t block = n - i < kBlock ? n - i : kBlock;
    const float* b = x + i;
    const double sum = BlockedSum(block, [b](int64_t j) { return b[j]; });
    const float mean = static_cast<float>(sum / static_cast<double>(block));
    // The rounding of `mean` is undone by the second term.
    const double m2 = BlockedSum(block, [b, mean](int64_t j) {
      const float d = b[j] - mean;
      return d * d;
    });
    const double exact = sum / static_cast<double>(block);
    const double off = exact - static_cast<double>(mean);
    Merge(*total, static_cast<double>(block), exact, m2 - off * off * static_cast<double>(block));
  }
}

// A strip of columns: merges `rows` rows into mean[], m2[] that cover `before` rows.
EBB_CLONES void ColumnMoments(const float* x, int64_t stride, int64_t rows, int64_t width,
                              double before, double* mean, double* m2) {
  float sum[kStrip];
  float square[kStrip];
  for (int64_t c = 0; c < width; ++c) sum[c] = square[c] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    EBB_IVDEP
    for (int64_t c = 0; c < width; ++c) sum[c] += x[r * stride + c];
  }
  const float inverse = 1.0f / static_cast<float>(rows);
  EBB_IVDEP
  for (int64_t c = 0; c < width; ++c) sum[c] *= inverse;
  float rest[kStrip];  // what the rounded mean leaves over
  for (int64_t c = 0; c < width; ++c) rest[c] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    EBB_IVDEP
    for (int64_t c = 0; c < width; ++c) {
      const float d = x[r * stride + c] - sum[c];
      rest[c] += d;
      square[c] += d * d;
    }
  }
  const double n = static_cast<double>(rows);
  const double total = before + n;
  EBB_IVDEP
  for (int64_t c = 0; c < width; ++c) {
    const double off = static_cast<double>(rest[c]) / n;
    const double block_mean = static_cast<double>(sum[c]) + off;
    const double delta = block_mean - mean[c];
    mean[c] += delta * (n / total);
    m2[c] +=
        (static_cast<double>(square[c]) - off * off * n) + delta * delta * (before * n / total);
  }
}

void BatchMoments(const BatchForm& form, const float* x, float* mean, float* var) {
  const double n = static_cast<double>(form.count());
  if (form.inner > 1) {
    for (int64_t c = 0; c < form.channels; ++c) {
      Moments total;
      for (int64_t o = 0; o < form.outer; ++o) {
        RunMoments(x + (o * form.channels + c) * form.inner, form.inner, &total);
      }
      mean[c] = static_cast<float>(total.mean);
      var[c] = static_cast<float>(std::max(total.m2, 0.0) / n);
    }
    return;
  }
  for (int64_t c0 = 0; c0 < form.channels; c0 += kStrip) {
    const int64_t width = std::min(kStrip, form.channels - c0);
    double means[kStrip] = {};
    double m2[kStrip] = {};
    for (int64_t r = 0; r < form.outer; r += kBlockRows) {
      ColumnMoments(x + r * form.channels + c0, form.channels, std::min(kBlockRows, form.outer - r),
                    width, static_cast<double>(r), means, m2);
    }
    for (int64_t c = 0; c < width; ++c) {
      mean[c0 + c] = static_cast<float>(means[c]);
      var[c0 + c] = static_cast<float>(std::max(m2[c], 0.0) / n);
    }
  }
}

EBB_CLONES void NormalizeRun(const float* x, float* y, int64_t n, float mean, float a, float bias) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * a + bias;
}

EBB_CLONES void NormalizeRows(const float* x, float* y, int64_t rows, int64_t channels,
                              const float* mean, const float* a, const float* bias) {
  for (int64_t r = 0; r < rows; ++r) {
    EBB_IVDEP
    for (int64_t c = 0; c < channels; ++c) {
      y[r * channels + c] = (x[r * channels + c] - mean[c]) * a[c] + bias[c];
    }
  }
}

void Normalize(const BatchForm& form, const float* x, float* y, const float* mean, const float* a,
               const float* bias) {
  if (form.inner == 1) return NormalizeRows(x, y, form.outer, form.channels, mean, a, bias);
  for (int64_t o = 0; o < form.outer; ++o) {
    for (int64_t c = 0; c < form.channels; ++c) {
      const int64_t at = (o * form.channels + c) * form.inner;
      NormalizeRun(x + at, y + at, form.inner, mean[c], a[c], bias[c]);
    }
  }
}

// a[c] = scale / sqrt(var + epsilon)
void Slopes(int64_t channels, const float* scale, const float* var, double epsilon, float* a) {
  for (int64_t c = 0; c < channels; ++c) {
    a[c] = static_cast<float>(static_cast<double>(scale[c]) /
                              std::sqrt(static_cast<double>(var[c]) + epsilon));
  }
}

Bytes Floats(int64_t n) { return Bytes(n * static_cast<int64_t>(sizeof(float))); }

absl::StatusOr<Kernel> MakeBatchNorm(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  const BatchForm form = BatchFormOf(In(graph, node));
  const double epsilon = node.attrs.Float("epsilon", 1e-5);
  const double momentum = node.attrs.Float("momentum", 0.1);
  return MakeKernel(
      [form, epsilon, momentum](const KernelArgs& args) {
        const float* x = InPtr<float>(args);
        float* mean = OutPtr<float>(args, 1);
        float* var = OutPtr<float>(args, 2);
        float* a = static_cast<float*>(args.workspace);
        BatchMoments(form, x, mean, var);
        Slopes(form.channels, InPtr<float>(args, 1), var, epsilon, a);
        Normalize(form, x, OutPtr<float>(args), mean, a, InPtr<float>(args, 2));
        float* running_mean = MutablePtr<float>(args, 3);
        float* running_var = MutablePtr<float>(args, 4);
        const double n = static_cast<double>(form.count());
        const double unbiased = n > 1 ? n / (n - 1) : 1.0;
        for (int64_t c = 0; c < form.channels; ++c) {
          running_mean[c] =
              static_cast<float>((1 - momentum) * running_mean[c] + momentum * mean[c]);
          running_var[c] =
              static_cast<float>((1 - momentum) * running_var[c] + momentum * (var[c] * unbiased));
        }
        return absl::OkStatus();
      },
      Floats(form.channels));
}

absl::StatusOr<Kernel> MakeInference(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  const BatchForm form = BatchFormOf(In(graph, node));
  const double epsilon = node.attrs.Float("epsilon", 1e-5);
  return MakeKernel(
      [form, epsilon](const KernelArgs& args) {
        float* a = static_cast<float*>(args.workspace);
        Slopes(form.channels, InPtr<float>(args, 1), InPtr<float>(args, 4), epsilon, a);
        Normalize(form, InPtr<float>(args), OutPtr<float>(args), InPtr<float>(args, 3), a,
                  InPtr<float>(args, 2));
        return absl::OkStatus();
      },
      Floats(form.channels));
}

// ---- Gradients.

EBB_CLONES void RunSums(const float* dy, const float* x, int64_t n, float mean, double* sum,
                        double* dot) {
  *sum += BlockedSum(n, [dy](int64_t i) { return dy[i]; });
  *dot += BlockedSum(n, [dy, x, mean](int64_t i) { return dy[i] * (x[i] - mean); });
}

EBB_CLONES void ColumnSums(const float* dy, const float* x, int64_t stride, int64_t rows,
                           int64_t width, const float* mean, double* sum, double* dot) {
  float s[kStrip];
  float d[kStrip];
  for (int64_t c = 0; c < width; ++c) s[c] = d[c] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    EBB_IVDEP
    for (int64_t c = 0; c < width; ++c) {
      const float g = dy[r * stride + c];
      s[c] += g;
      d[c] += g * (x[r * stride + c] - mean[c]);
    }
  }
  EBB_IVDEP
  for (int64_t c = 0; c < width; ++c) {
    sum[c] += static_cast<double>(s[c]);
    dot[c] += static_cast<double>(d[c]);
  }
}

// dx = a dy + slope (x - mean) + shift
EBB_CLONES void GradRun(const float* dy, const float* x, float* dx, int64_t n, float mean, float a,
                        float slope, float shift) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) dx[i] = (dy[i] * a + shift) + (x[i] - mean) * slope;
}

EBB_CLONES void GradRows(const float* dy, const float* x, float* dx, int64_t rows, int64_t channels,
                         const float* mean, const float* a, const float* slope,
                         const float* shift) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = r * channels;
    EBB_IVDEP
    for (int64_t c = 0; c < channels; ++c) {
      dx[at + c] = (dy[at + c] * a[c] + shift[c]) + (x[at + c] - mean[c]) * slope[c];
    }
  }
}

enum class Statistics { kBatch, kFixed };

struct GradOp {
  BatchForm form;
  double epsilon;
  Statistics statistics;

  absl::Status operator()(const KernelArgs& args) const {
    const float* dy = InPtr<float>(args, 0);
    const float* x = InPtr<float>(args, 1);
    const float* mean = InPtr<float>(args, 3);
    float* dx = OutPtr<float>(args, 0);
    float* a = static_cast<float*>(args.workspace);
    float* slope = a + form.channels;
    float* shift = slope + form.channels;
    Slopes(form.channels, InPtr<float>(args, 2), InPtr<float>(args, 4), epsilon, a);
    if (form.inner == 1) {
      for (int64_t c0 = 0; c0 < form.channels; c0 += kStrip) {
        const int64_t width = std::min(kStrip, form.channels - c0);
        double sum[kStrip] = {};
        double dot[kStrip] = {};
        constexpr int64_t kRows = 128;
        for (int64_t r = 0; r < form.outer; r += kRows) {
          const int64_t at = r * form.channels + c0;
          ColumnSums(dy + at, x + at, form.channels, std::min(kRows, form.outer - r), width,
                     mean + c0, sum, dot);
        }
        for (int64_t c = 0; c < width; ++c) Finish(args, c0 + c, sum[c], dot[c], a, slope, shift);
      }
      GradRows(dy, x, dx, form.outer, form.channels, mean, a, slope, shift);
      return absl::OkStatus();
    }
    for (int64_t c = 0; c < form.channels; ++c) {
      double sum = 0;
      double dot = 0;
      for (int64_t o = 0; o < form.outer; ++o) {
        const int64_t at = (o * form.channels + c) * form.inner;
        RunSums(dy + at, x + at, form.inner, mean[c], &sum, &dot);
      }
      Finish(args, c, sum, dot, a, slope, shift);
    }
    for (int64_t o = 0; o < form.outer; ++o) {
      for (int64_t c = 0; c < form.channels; ++c) {
        const int64_t at = (o * form.channels + c) * form.inner;
        GradRun(dy + at, x + at, dx + at, form.inner, mean[c], a[c], slope[c], shift[c]);
      }
    }
    return absl::OkStatus();
  }

  void Finish(const KernelArgs& args, int64_t c, double sum, double dot, const float* a,
              float* slope, float* shift) const {
    const double variance = static_cast<double>(InPtr<float>(args, 4)[c]) + epsilon;
    OutPtr<float>(args, 1)[c] = static_cast<float>(dot / std::sqrt(variance));
    OutPtr<float>(args, 2)[c] = static_cast<float>(sum);
    if (statistics == Statistics::kFixed) {
      slope[c] = shift[c] = 0;
      return;
    }
    const double scaled = static_cast<double>(a[c]) / static_cast<double>(form.count());
    slope[c] = static_cast<float>(-scaled * dot / variance);
    shift[c] = static_cast<float>(-scaled * sum);
  }
};

template <Statistics kStatistics>
absl::StatusOr<Kernel> MakeGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  if (In(graph, node, 0).layout != In(graph, node, 1).layout) {
    return absl::UnimplementedError("batch norm gradient on cpu mixes layouts");
  }
  const BatchForm form = BatchFormOf(In(graph, node, 1));
  const double epsilon = node.attrs.Float("epsilon", 1e-5);
  return MakeKernel(GradOp{form, epsilon, kStatistics}, Floats(3 * form.channels));
}

constexpr KernelRow kRows[] = {
    {"BatchNorm", MakeBatchNorm},
    {"BatchNormGrad", MakeGrad<Statistics::kBatch>},
    {"BatchNormInference", MakeInference},
    {"BatchNormInferenceGrad", MakeGrad<Statistics::kFixed>},
};

}  // namespace

absl::Span<const KernelRow> BatchNormKernels() { return kRows; }

}  // namespace ebb::device::cpu
