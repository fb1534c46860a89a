// Metrics: sums and counts over the first `valid` rows of a batch.
#include <algorithm>
#include <cmath>

#include "device/common/classes.h"
#include "device/cpu/common.h"
#include "device/cpu/softmax.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

// Rows that count: all, or what the i64 scalar `valid`, input `i`, says.
int64_t ValidRows(const KernelArgs& args, int64_t rows, size_t i = 2) {
  const int64_t* valid = InPtr<int64_t>(args, i);
  return valid == nullptr ? rows : std::clamp<int64_t>(*valid, 0, rows);
}

void Store(const KernelArgs& args, double sum, double count) {
  *OutPtr<float>(args, 0) = static_cast<float>(sum);
  *OutPtr<float>(args, 1) = static_cast<float>(count);
}

// Of one sample, into `buffer`.
const float* LogSoftmaxOf(const float* x, const ClassForm& form, void* buffer) {
  auto* log_prob = static_cast<float*>(buffer);
  if (form.inner == 1) {
    LogSoftmaxRow(x, log_prob, form.classes);
  } else {
    LogSoftmaxStrided(x, log_prob, form.classes, form.inner);
  }
  return log_prob;
}

absl::StatusOr<Kernel> MakeCrossEntropySum(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const ClassForm form = ClassFormOf(In(graph, node).type.shape);
  const DType dtype = In(graph, node, 1).type.dtype;
  const int64_t ignore = node.attrs.Int("ignore_index", -100);
  const double smoothing = node.attrs.Float("label_smoothing", 0);
  const bool given = node.attrs.Int("log_prob", 0) != 0;
  const int64_t plane = form.classes * form.inner;
  return MakeKernel(
      [=](const KernelArgs& args) {
        const Labels labels(args.in[1], dtype, form.classes, ignore);
        const float* weight = InPtr<float>(args, 3);
        const auto weight_of = [weight](int64_t c) {
          return weight == nullptr ? 1.0 : static_cast<double>(weight[c]);
        };
        double sum = 0, count = 0;
        const int64_t rows = ValidRows(args, form.batch);
        for (int64_t n = 0; n < rows && form.classes > 0; ++n) {
          const float* x = InPtr<float>(args) + n * plane;
          const float* log_prob = given ? x : LogSoftmaxOf(x, form, args.workspace);
          for (int64_t s = 0; s < form.inner; ++s) {
            const int64_t label = labels[n * form.inner + s];
            if (label < 0) continue;
            count += weight_of(label);
            sum -= (1 - smoothing) * weight_of(label) *
                   static_cast<double>(log_prob[label * form.inner + s]);
            if (smoothing == 0) continue;
            double all = 0;
            for (int64_t c = 0; c < form.classes; ++c) {
              all += weight_of(c) * static_cast<double>(log_prob[c * form.inner + s]);
            }
            sum -= smoothing / static_cast<double>(form.classes) * all;
          }
        }
        Store(args, sum, count);
        return absl::OkStatus();
      },
      Bytes(given ? 0 : plane * static_cast<int64_t>(sizeof(float))));
}

absl::StatusOr<Kernel> MakeTopK(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const ClassForm form = ClassFormOf(In(graph, node).type.shape);
  const DType dtype = In(graph, node, 1).type.dtype;
  const int64_t ignore = node.attrs.Int("ignore_index", -100);
  const int64_t k = node.attrs.Int("k", 1);
  return MakeKernel([=](const KernelArgs& args) {
    const Labels labels(args.in[1], dtype, form.classes, ignore);
    int64_t correct = 0;
    int64_t count = 0;
    const int64_t rows = ValidRows(args, form.batch);
    for (int64_t i = 0; i < rows * form.inner; ++i) {
      const int64_t label = labels[i];
      if (label < 0) continue;
      ++count;
      const float* x =
          InPtr<float>(args) + (i / form.inner) * form.classes * form.inner + i % form.inner;
      const float score = x[label * form.inner];
      int64_t ahead = 0;
      for (int64_t c = 0; c < form.classes; ++c) {
        const float other = x[c * form.inner];
        ahead += other > score || (other == score && c < label) ? 1 : 0;
      }
      // No comparison puts another ahead of a score that is not a number.
      correct += ahead < k && !std::isnan(score) ? 1 : 0;
    }
    Store(args, static_cast<double>(correct), static_cast<double>(count));
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeClassCounts(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const ClassForm form = ClassFormOf(In(graph, node).type.shape);
  const DType dtype = In(graph, node, 1).type.dtype;
  const int64_t ignore = node.attrs.Int("ignore_index", -100);
  return MakeKernel([=](const KernelArgs& args) {
    const Labels labels(args.in[1], dtype, form.classes, ignore);
    float* counts = OutPtr<float>(args);
    std::fill_n(counts, 3 * form.classes, 0.0F);
    const int64_t rows = ValidRows(args, form.batch);
    for (int64_t i = 0; i < rows * form.inner; ++i) {
      const int64_t label = labels[i];
      if (label < 0) continue;
      const float* x =
          InPtr<float>(args) + (i / form.inner) * form.classes * form.inner + i % form.inner;
      int64_t best = 0;
      for (int64_t c = 1; c < form.classes; ++c) {
        if (x[c * form.inner] > x[best * form.inner]) best = c;
      }
      if (best == label) {
        ++counts[label];
      } else {
        ++counts[form.classes + best];
        ++counts[2 * form.classes + label];
      }
    }
    return absl::OkStatus();
  });
}

EBB_CLONES double SumOf(const float* x, int64_t n) {
  return BlockedSum(n, [x](int64_t i) { return x[i]; });
}

absl::StatusOr<Kernel> MakeRowsSum(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  const Shape& shape = In(graph, node).type.shape;
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const int64_t rows = shape.empty() ? 1 : shape[0];
  const int64_t width = NumElements(shape) / std::max<int64_t>(rows, 1);
  return MakeKernel([rows, width](const KernelArgs& args) {
    const int64_t n = ValidRows(args, rows, 1) * width;
    Store(args, SumOf(InPtr<float>(args), n), static_cast<double>(n));
    return absl::OkStatus();
  });
}

struct SquaredError {
  static float Of(float x, float t) { return (x - t) * (x - t); }
};
struct BinaryCrossEntropy {
  static float Of(float x, float t) {
    return (x > 0.0f ? x : 0.0f) - x * t + std::log1p(std::exp(-std::fabs(x)));
  }
};
struct SameSide {
  static float Of(float x, float t) {
    return (x >= 0.0f) == (t >= 0.5f) && !std::isnan(x) ? 1.0f : 0.0f;
  }
};

template <class M>
absl::StatusOr<Kernel> MakeElements(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const Shape& shape = In(graph, node).type.shape;
  const int64_t rows = shape.empty() ? 1 : shape[0];
  const int64_t width = NumElements(shape) / std::max<int64_t>(rows, 1);
  return MakeKernel([rows, width](const KernelArgs& args) {
    const int64_t n = ValidRows(args, rows) * width;
    const float* x = InPtr<float>(args, 0);
    const float* t = InPtr<float>(args, 1);
    Store(args, BlockedSum(n, [x, t](int64_t i) { return M::Of(x[i], t[i]); }),
          static_cast<double>(n));
    return absl::OkStatus();
  });
}

constexpr KernelRow kRows[] = {
    {"BceSum", MakeElements<BinaryCrossEntropy>},
    {"BinaryCorrect", MakeElements<SameSide>},
    {"ClassCounts", MakeClassCounts},
    {"CrossEntropySum", MakeCrossEntropySum},
    {"MseSum", MakeElements<SquaredError>},
    {"RowsSum", MakeRowsSum},
    {"TopKCorrect", MakeTopK},
};

}  // namespace

absl::Span<const KernelRow> MetricKernels() { return kRows; }

}  // namespace ebb::device::cpu
