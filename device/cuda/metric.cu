// Metrics: sums and counts over the first `valid` rows of a batch.
#include <cmath>

#include "base/status.h"
#include "device/common/classes.h"
#include "device/cuda/softmax.h"
#include "device/math/loss.h"
#include "device/math/sums.h"

namespace ebb::device::cuda {
namespace {

using math::FloatSum;

// Rows that count: all, or what an i64 scalar in the device's memory says.
struct ValidRows {
  EBB_INLINE int64_t operator()() const {
    if (valid == nullptr) return rows;
    return *valid < 0 ? 0 : (*valid > rows ? rows : *valid);
  }
  int64_t rows;
  const int64_t* valid;
};

// What a metric over classes reads.
struct ClassScores {
  // The label at a position, or -1 when the position does not count.
  EBB_INLINE int64_t Label(int64_t position) const {
    return position < valid() * form.inner ? labels[position] : -1;
  }
  ClassForm form;
  Labels labels;
  ValidRows valid;
  const float* x;
};

struct ClassMetric {
  ClassForm form;
  DType label_type;
  int64_t ignore;

  ClassScores Scores(const KernelArgs& args) const {
    return {form,
            {args.in[1], label_type, form.classes, ignore},
            {form.batch, InPtr<int64_t>(args, 2)},
            InPtr<float>(args, 0)};
  }
  // Rows of classes: side by side unless there are positions between them.
  template <class F>
  absl::Status OverClasses(const Launch& at, const F& f) const {
    return Lines(at, form.inner == 1 ? SumsBy::kRows : SumsBy::kColumns, form.positions(),
                 form.classes, f);
  }
};

absl::StatusOr<ClassMetric> ClassMetricOf(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  return ClassMetric{ClassFormOf(In(graph, node).type.shape), In(graph, node, 1).type.dtype,
                     node.attrs.Int("ignore_index", -100)};
}

struct SumAndCount {
  FloatSum sum, count;
};

// Adds up what was found for every position.
struct SumOfPositions {
  using Sum = SumAndCount;
  EBB_INLINE Sum Zero() const { return {{0, 0}, {0, 0}}; }
  EBB_INLINE void Add(Sum& sum, int64_t, int64_t i) const {
    const int64_t label = scores.Label(i);
    if (label < 0) return;
    sum.sum.Add(values[i]);
    sum.count.Add(weight == nullptr ? 1.0f : weight[label]);
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const {
    sum.sum.Join(other.sum);
    sum.count.Join(other.count);
  }
  EBB_INLINE void Done(int64_t, const Sum& sum) const {
    *out_sum = sum.sum.Total();
    *out_count = sum.count.Total();
  }
  ClassScores scores;
  const float* values;
  const float* weight;
  float* out_sum;
  float* out_count;
};

Bytes PositionsWorkspace(const ClassForm& form) {
  const int64_t values = (form.positions() + 3) / 4 * 16;
  return Bytes(values) + SumsWorkspace<SumOfPositions>(SumsBy::kRows, 1, form.positions());
}
absl::Status AddPositions(const Launch& at, const ClassScores& scores, const float* weight,
                          const KernelArgs& args) {
  const int64_t n = scores.form.positions();
  auto* const values = static_cast<float*>(args.workspace);
  return Sums(
      at, SumsBy::kRows, 1, n,
      SumOfPositions{scores, values, weight, OutPtr<float>(args, 0), OutPtr<float>(args, 1)},
      values + (n + 3) / 4 * 4);
}

// The loss of every position.
struct CrossEntropyOfPositions {
  struct Sum {
    ExpSum exps;
    FloatSum scores, weights;  // w_c x_c and w_c; with smoothing
  };
  static constexpr bool kEach = false;
  EBB_INLINE float Weight(int64_t c) const { return weight == nullptr ? 1.0f : weight[c]; }
  EBB_INLINE Sum Zero() const { return {ExpSum::None(), {0, 0}, {0, 0}}; }
  EBB_INLINE void Add(Sum& sum, int64_t position, int64_t c) const {
    const float x = scores.x[scores.form.At(position, c)];
    sum.exps.Add(x);
    if (smoothing == 0.0f) return;
    sum.scores.Add(Weight(c) * x);
    sum.weights.Add(Weight(c));
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const {
    sum.exps.Join(other.exps);
    sum.scores.Join(other.scores);
    sum.weights.Join(other.weights);
  }
  EBB_INLINE void Done(int64_t position, const Sum& sum) const {
    const int64_t label = scores.Label(position);
    if (label < 0) return;
    const float x = scores.x[scores.form.At(position, label)];
    const float own = Weight(label) * (std::log(sum.exps.sum) - (x - sum.exps.max));
    if (smoothing == 0.0f) {
      values[position] = own;
      return;
    }
    const double log_sum =
        static_cast<double>(sum.exps.max) + static_cast<double>(std::log(sum.exps.sum));
    const auto rest = static_cast<float>(sum.weights.Wide() * log_sum - sum.scores.Wide());
    const auto classes = static_cast<float>(int64_t{scores.form.classes});
    values[position] = (1.0f - smoothing) * own + smoothing / classes * rest;
  }
  ClassScores scores;
  float smoothing;
  const float* weight;
  float* values;
};

// The same where the scores are logarithms of probabilities already.
struct GivenLossOfPositions {
  EBB_INLINE void operator()(int64_t position) const {
    const int64_t label = scores.Label(position);
    if (label < 0) return;
    const float w = weight == nullptr ? 1.0f : weight[label];
    values[position] = -w * scores.x[scores.form.At(position, label)];
  }
  ClassScores scores;
  const float* weight;
  float* values;
};

absl::StatusOr<CudaKernel> MakeCrossEntropySum(const Graph& graph, const Node& node) {
  EBB_ASSIGN_OR_RETURN(const ClassMetric metric, ClassMetricOf(graph, node));
  const auto smoothing = static_cast<float>(node.attrs.Float("label_smoothing", 0));
  const bool given = node.attrs.Int("log_prob", 0) != 0;
  const auto run = [=](const Launch& at, const KernelArgs& args) -> absl::Status {
    const ClassScores scores = metric.Scores(args);
    const float* weight = InPtr<float>(args, 3);
    auto* const values = static_cast<float*>(args.workspace);
    EBB_RETURN_IF_ERROR(
        given ? ForEach(at, metric.form.positions(), GivenLossOfPositions{scores, weight, values})
              : metric.OverClasses(at, CrossEntropyOfPositions{scores, smoothing, weight, values}));
    return AddPositions(at, scores, weight, args);
  };
  return MakeCudaKernel(run, PositionsWorkspace(metric.form));
}

// 1 where fewer than k scores are ahead of the label's: above it, or equal and of a class before.
struct TopKOfPositions {
  struct Sum {
    int32_t ahead;
  };
  static constexpr bool kEach = false;
  EBB_INLINE Sum Zero() const { return {0}; }
  EBB_INLINE void Add(Sum& sum, int64_t position, int64_t c) const {
    const int64_t label = scores.Label(position);
    if (label < 0) return;
    const float own = scores.x[scores.form.At(position, label)];
    const float other = scores.x[scores.form.At(position, c)];
    sum.ahead += other > own || (other == own && c < label) ? 1 : 0;
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const { sum.ahead += other.ahead; }
  EBB_INLINE void Done(int64_t position, const Sum& sum) const {
    const int64_t label = scores.Label(position);
    if (label < 0) return;
    // No comparison puts another ahead of a score that is not a number.
    const float own = scores.x[scores.form.At(position, label)];
    values[position] = sum.ahead < k && own == own ? 1.0f : 0.0f;
  }
  ClassScores scores;
  int64_t k;
  float* values;
};

absl::StatusOr<CudaKernel> MakeTopK(const Graph& graph, const Node& node) {
  EBB_ASSIGN_OR_RETURN(const ClassMetric metric, ClassMetricOf(graph, node));
  const int64_t k = node.attrs.Int("k", 1);
  const auto run = [=](const Launch& at, const KernelArgs& args) -> absl::Status {
    const ClassScores scores = metric.Scores(args);
    EBB_RETURN_IF_ERROR(
        metric.OverClasses(at, TopKOfPositions{scores, k, static_cast<float*>(args.workspace)}));
    return AddPositions(at, scores, nullptr, args);
  };
  return MakeCudaKernel(run, PositionsWorkspace(metric.form));
}

// The class of the highest score, the first one among equals; -1 where a position does not count.
// Not a number is never above another, and only the first class is what nothing is above.
struct BestOfPositions {
  struct Sum {
    float score;
    int32_t c;
  };
  static constexpr bool kEach = false;
  EBB_INLINE Sum Zero() const { return {-INFINITY, INT32_MAX}; }
  EBB_INLINE void Add(Sum& sum, int64_t position, int64_t c) const {
    const float x = scores.x[scores.form.At(position, c)];
    if (x == x) {
      Join(sum, {x, static_cast<int32_t>(c)});
    } else if (c == 0) {
      Join(sum, {INFINITY, 0});
    }
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const {
    const bool better = other.score > sum.score || (other.score == sum.score && other.c < sum.c);
    if (better) sum = other;
  }
  EBB_INLINE void Done(int64_t position, const Sum& sum) const {
    best[position] = scores.Label(position) < 0 ? -1 : sum.c;
  }
  ClassScores scores;
  int32_t* best;
};

// Of each class the true positives, false positives and false negatives.
struct CountsOfClasses {
  struct Sum {
    int32_t right, wrong, missed;
  };
  EBB_INLINE Sum Zero() const { return {0, 0, 0}; }
  EBB_INLINE void Add(Sum& sum, int64_t c, int64_t position) const {
    if (best[position] < 0) return;
    const bool is = scores.labels[position] == c;
    const bool said = best[position] == c;
    sum.right += is && said ? 1 : 0;
    sum.wrong += said && !is ? 1 : 0;
    sum.missed += is && !said ? 1 : 0;
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const {
    sum.right += other.right;
    sum.wrong += other.wrong;
    sum.missed += other.missed;
  }
  EBB_INLINE void Done(int64_t c, const Sum& sum) const {
    const int64_t classes = scores.form.classes;
    counts[c] = static_cast<float>(sum.right);
    counts[classes + c] = static_cast<float>(sum.wrong);
    counts[2 * classes + c] = static_cast<float>(sum.missed);
  }
  ClassScores scores;
  const int32_t* best;
  float* counts;
};

absl::StatusOr<CudaKernel> MakeClassCounts(const Graph& graph, const Node& node) {
  EBB_ASSIGN_OR_RETURN(const ClassMetric metric, ClassMetricOf(graph, node));
  const int64_t positions = metric.form.positions();
  const int64_t slots = (positions + 3) / 4 * 4;
  const auto run = [=](const Launch& at, const KernelArgs& args) -> absl::Status {
    const ClassScores scores = metric.Scores(args);
    auto* const best = static_cast<int32_t*>(args.workspace);
    EBB_RETURN_IF_ERROR(metric.OverClasses(at, BestOfPositions{scores, best}));
    return Sums(at, SumsBy::kRows, metric.form.classes, positions,
                CountsOfClasses{scores, best, OutPtr<float>(args)}, best + slots);
  };
  return MakeCudaKernel(
      run, Bytes(slots * static_cast<int64_t>(sizeof(int32_t))) +
               SumsWorkspace<CountsOfClasses>(SumsBy::kRows, metric.form.classes, positions));
}

// ---- Over elements.

struct Itself {
  static EBB_INLINE float Of(float x, float) { return x; }
};
struct SquaredError {
  static EBB_INLINE float Of(float x, float t) { return math::Mse::Loss(x, t); }
};
struct BinaryCrossEntropy {
  static EBB_INLINE float Of(float x, float t) { return math::Bce::Loss(x, t); }
};
struct SameSide {
  static EBB_INLINE float Of(float x, float t) {
    return (x >= 0.0f) == (t >= 0.5f) && x == x ? 1.0f : 0.0f;
  }
};

template <class M>
struct SumOfElements {
  using Sum = FloatSum;
  EBB_INLINE Sum Zero() const { return {0, 0}; }
  EBB_INLINE void Add(Sum& sum, int64_t, int64_t i) const {
    if (i < valid() * width) sum.Add(M::Of(x[i], t == nullptr ? 0.0f : t[i]));
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const { sum.Join(other); }
  EBB_INLINE void Done(int64_t, const Sum& sum) const {
    *out_sum = sum.Total();
    *out_count = static_cast<float>(valid() * width);
  }
  ValidRows valid;
  int64_t width;
  const float* x;
  const float* t;
  float* out_sum;
  float* out_count;
};

// `targets`: 1 where operand 1 are targets; `valid` is the operand behind.
template <class M, size_t kTargets>
absl::StatusOr<CudaKernel> MakeElements(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const Shape& shape = In(graph, node).type.shape;
  const int64_t n = NumElements(shape);
  const int64_t rows = shape.empty() ? 1 : shape[0];
  const int64_t width = n / std::max<int64_t>(rows, 1);
  const auto run = [=](const Launch& at, const KernelArgs& args) {
    const SumOfElements<M> sum{{rows, InPtr<int64_t>(args, 1 + kTargets)},
                               width,
                               InPtr<float>(args, 0),
                               kTargets == 0 ? nullptr : InPtr<float>(args, 1),
                               OutPtr<float>(args, 0),
                               OutPtr<float>(args, 1)};
    return Sums(at, SumsBy::kRows, 1, n, sum, args.workspace);
  };
  return MakeCudaKernel(run, SumsWorkspace<SumOfElements<M>>(SumsBy::kRows, 1, n));
}

constexpr CudaKernelRow kRows[] = {
    {"BceSum", MakeElements<BinaryCrossEntropy, 1>},
    {"BinaryCorrect", MakeElements<SameSide, 1>},
    {"ClassCounts", MakeClassCounts},
    {"CrossEntropySum", MakeCrossEntropySum},
    {"MseSum", MakeElements<SquaredError, 1>},
    {"RowsSum", MakeElements<Itself, 0>},
    {"TopKCorrect", MakeTopK},
};

}  // namespace

absl::Span<const CudaKernelRow> MetricKernels() { return kRows; }

}  // namespace ebb::device::cuda
