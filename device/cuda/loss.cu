// Losses over classes and over elements, and their gradients.
#include "base/status.h"
#include "device/common/classes.h"
#include "device/cuda/softmax.h"
#include "device/math/loss.h"
#include "device/math/sums.h"

namespace ebb::device::cuda {
namespace {

using math::FloatSum;

// What a loss over classes is of, apart from pointers. An item with label y costs
//   -(1 - smoothing) w_y log p_y - smoothing / C sum_c w_c log p_c
// and the mean divides by the sum of w_y.
struct ClassLoss {
  ClassForm form;
  DType label_type = DType::kI64;
  int64_t ignore = -100;
  float smoothing = 0;
  LossReduction reduction = LossReduction::kMean;

  Labels labels(const void* data) const { return {data, label_type, form.classes, ignore}; }
};

ClassLoss ClassLossOf(const Node& node, const Shape& scores, DType label_type) {
  return {ClassFormOf(scores), label_type, node.attrs.Int("ignore_index", -100),
          static_cast<float>(node.attrs.Float("label_smoothing", 0)), LossReductionOf(node)};
}

EBB_INLINE float WeightOf(const float* weight, int64_t c) {
  return weight == nullptr ? 1.0f : weight[c];
}

// log_prob, and for every position the second term of its loss without smoothing / C: from the
// scores, while they are read for the softmax.
struct SmoothedLogSoftmax {
  struct Sum {
    ExpSum exps;
    FloatSum scores, weights;  // w_c x_c and w_c
  };
  static constexpr bool kEach = true;
  EBB_INLINE Sum Zero() const { return {ExpSum::None(), {0, 0}, {0, 0}}; }
  EBB_INLINE void Add(Sum& sum, int64_t row, int64_t i) const {
    const float v = softmax.x[softmax.form.At(row, i)];
    const float w = WeightOf(weight, i);
    sum.exps.Add(v);
    sum.scores.Add(w * v);
    sum.weights.Add(w);
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const {
    sum.exps.Join(other.exps);
    sum.scores.Join(other.scores);
    sum.weights.Join(other.weights);
  }
  EBB_INLINE void Done(int64_t row, const Sum& sum) const {
    const double log_sum = static_cast<double>(sum.exps.max) + std::log(sum.exps.sum);
    rest[row] = static_cast<float>(sum.weights.Wide() * log_sum - sum.scores.Wide());
  }
  EBB_INLINE void Each(int64_t row, int64_t i, const Sum& sum) const {
    softmax.Each(row, i, sum.exps);
  }
  SoftmaxOf<SoftmaxOutput::kLog> softmax;
  const float* weight;
  float* rest;
};

// The losses of positions, from log_prob.
struct PositionLosses {
  EBB_INLINE float Of(int64_t position, int64_t label) const {
    const float first = -WeightOf(weight, label) * log_prob[form.At(position, label)];
    if (rest == nullptr) return first;
    return (1.0f - smoothing) * first +
           smoothing / static_cast<float>(form.classes) * rest[position];
  }
  ClassForm form;
  Labels labels;
  float smoothing;
  const float* log_prob;
  const float* weight;
  const float* rest;  // nullptr without smoothing
};

struct EachPositionLoss {
  EBB_INLINE void operator()(int64_t i) const {
    const int64_t label = losses.labels[i];
    out[i] = label < 0 ? 0.0f : losses.Of(i, label);
  }
  PositionLosses losses;
  float* out;
};

struct SumOfPositionLosses {
  struct Sum {
    FloatSum loss, weight;
  };
  EBB_INLINE Sum Zero() const { return {{0, 0}, {0, 0}}; }
  EBB_INLINE void Add(Sum& sum, int64_t, int64_t i) const {
    const int64_t label = losses.labels[i];
    if (label < 0) return;
    sum.loss.Add(losses.Of(i, label));
    sum.weight.Add(WeightOf(losses.weight, label));
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const {
    sum.loss.Join(other.loss);
    sum.weight.Join(other.weight);
  }
  EBB_INLINE void Done(int64_t, const Sum& sum) const {
    *out = static_cast<float>(mean ? sum.loss.Wide() / sum.weight.Wide() : sum.loss.Wide());
  }
  PositionLosses losses;
  bool mean;
  float* out;
};

Bytes ReduceWorkspace(const ClassLoss& loss) {
  return SumsWorkspace<SumOfPositionLosses>(SumsBy::kRows, 1, loss.form.positions());
}

absl::Status ReducePositions(const Launch& at, const ClassLoss& loss, const PositionLosses& losses,
                             float* out, void* workspace) {
  const int64_t n = loss.form.positions();
  if (loss.reduction == LossReduction::kNone) return ForEach(at, n, EachPositionLoss{losses, out});
  const bool mean = loss.reduction == LossReduction::kMean;
  return Sums(at, SumsBy::kRows, 1, n, SumOfPositionLosses{losses, mean, out}, workspace);
}

absl::StatusOr<CudaKernel> MakeCrossEntropy(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const ClassLoss loss =
      ClassLossOf(node, In(graph, node, 0).type.shape, In(graph, node, 1).type.dtype);
  const AxisForm axis{loss.form.batch, loss.form.classes, loss.form.inner};
  const auto run = [loss, axis](const Launch& at, const KernelArgs& args) -> absl::Status {
    const float* weight = InPtr<float>(args, 2);
    float* log_prob = OutPtr<float>(args, 1);
    const SoftmaxOf<SoftmaxOutput::kLog> softmax{axis, Masked::kNan, InPtr<float>(args), log_prob};
    float* rest = nullptr;
    if (loss.smoothing == 0) {
      EBB_RETURN_IF_ERROR(Lines(at, RowsOf(axis), axis.rows(), axis.length, softmax));
    } else {  // behind what the sum over positions needs
      rest = reinterpret_cast<float*>(static_cast<char*>(args.workspace) +
                                      ReduceWorkspace(loss).count());
      EBB_RETURN_IF_ERROR(Lines(at, RowsOf(axis), axis.rows(), axis.length,
                                SmoothedLogSoftmax{softmax, weight, rest}));
    }
    return ReducePositions(
        at, loss, {loss.form, loss.labels(args.in[1]), loss.smoothing, log_prob, weight, rest},
        OutPtr<float>(args), args.workspace);
  };
  const int64_t rest = loss.smoothing == 0 ? 0 : axis.rows();
  return MakeCudaKernel(run,
                        ReduceWorkspace(loss) + Bytes(rest * static_cast<int64_t>(sizeof(float))));
}

absl::StatusOr<CudaKernel> MakeNll(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const ClassLoss loss =
      ClassLossOf(node, In(graph, node, 0).type.shape, In(graph, node, 1).type.dtype);
  return MakeCudaKernel(
      [loss](const Launch& at, const KernelArgs& args) {
        return ReducePositions(at, loss,
                               {loss.form, loss.labels(args.in[1]), 0, InPtr<float>(args),
                                InPtr<float>(args, 2), nullptr},
                               OutPtr<float>(args), args.workspace);
      },
      ReduceWorkspace(loss));
}

// ---- Gradients of losses over classes.

// What the gradient of every position is multiplied with: 1 / the weights of the counted labels.
struct ShareOfMean {
  using Sum = FloatSum;
  EBB_INLINE Sum Zero() const { return {0, 0}; }
  EBB_INLINE void Add(Sum& sum, int64_t, int64_t i) const {
    const int64_t label = labels[i];
    if (label >= 0) sum.Add(WeightOf(weight, label));
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const { sum.Join(other); }
  EBB_INLINE void Done(int64_t, const Sum& sum) const {
    *out = static_cast<float>(1.0 / sum.Wide());
  }
  Labels labels;
  const float* weight;
  float* out;
};

struct SumOfWeights {
  using Sum = FloatSum;
  EBB_INLINE Sum Zero() const { return {0, 0}; }
  EBB_INLINE void Add(Sum& sum, int64_t, int64_t i) const { sum.Add(weight[i]); }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const { sum.Join(other); }
  EBB_INLINE void Done(int64_t, const Sum& sum) const { *out = sum.Total(); }
  const float* weight;
  float* out;
};

// The numbers that gradients of all positions share, at the start of the workspace; behind them
// what Sums() needs.
struct Shared {
  float share;        // of a mean
  float weights;      // sum over classes; only with class weights
  float padding[30];  // to the next 128 bytes
};

Bytes SharedWorkspace(const ClassLoss& loss) {
  const Bytes sums = std::max(SumsWorkspace<ShareOfMean>(SumsBy::kRows, 1, loss.form.positions()),
                              SumsWorkspace<SumOfWeights>(SumsBy::kRows, 1, loss.form.classes));
  return Bytes(static_cast<int64_t>(sizeof(Shared))) + sums;
}

absl::Status FillShared(const Launch& at, const ClassLoss& loss, const Labels& labels,
                        const float* weight, void* workspace) {
  auto* const shared = static_cast<Shared*>(workspace);
  if (loss.reduction == LossReduction::kMean) {
    EBB_RETURN_IF_ERROR(Sums(at, SumsBy::kRows, 1, loss.form.positions(),
                             ShareOfMean{labels, weight, &shared->share}, shared + 1));
  }
  if (loss.smoothing == 0 || weight == nullptr) return absl::OkStatus();
  return Sums(at, SumsBy::kRows, 1, loss.form.classes, SumOfWeights{weight, &shared->weights},
              shared + 1);
}

// A cell of [positions][classes], or of [batch classes][inner]. With a log_prob the gradient of
// CrossEntropy, without of NllLoss.
struct ClassGradient {
  EBB_INLINE void operator()(int64_t row, int64_t i) const {
    const bool flat = loss.form.inner == 1;
    const int64_t position = flat ? row : row / loss.form.classes * loss.form.inner + i;
    const int64_t c = flat ? i : row % loss.form.classes;
    const int64_t at = row * (flat ? loss.form.classes : loss.form.inner) + i;
    const int64_t label = labels[position];
    dx[at] = label < 0 ? 0.0f : Of(position, label, c, at);
  }
  EBB_INLINE float Of(int64_t position, int64_t label, int64_t c, int64_t at) const {
    const float share = loss.reduction == LossReduction::kMean ? shared->share : 1.0f;
    const float g = share * dloss[loss.reduction == LossReduction::kNone ? position : 0];
    const float hot = (1.0f - loss.smoothing) * WeightOf(weight, label);
    const float own = c == label ? hot : 0.0f;
    if (log_prob == nullptr) return -g * own;
    if (loss.smoothing == 0) return g * (hot * Exp(log_prob[at]) - own);
    const auto classes = static_cast<float>(loss.form.classes);
    const float smooth = loss.smoothing / classes;
    const float spread = smooth * (weight == nullptr ? classes : shared->weights);
    return g * ((hot + spread) * Exp(log_prob[at]) - smooth * WeightOf(weight, c) - own);
  }
  ClassLoss loss;
  Labels labels;
  const float* dloss;
  const float* log_prob;
  const float* weight;
  const Shared* shared;
  float* dx;
};

absl::Status FillGradient(const Launch& at, const ClassGradient& gradient) {
  const ClassForm& form = gradient.loss.form;
  if (form.inner == 1) return Cells(at, form.batch, form.classes, gradient);
  return Cells(at, form.batch * form.classes, form.inner, gradient);
}

absl::StatusOr<CudaKernel> MakeCrossEntropyGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const ClassLoss loss =
      ClassLossOf(node, In(graph, node, 1).type.shape, In(graph, node, 2).type.dtype);
  const auto run = [loss](const Launch& at, const KernelArgs& args) -> absl::Status {
    const Labels labels = loss.labels(args.in[2]);
    const float* weight = InPtr<float>(args, 3);
    EBB_RETURN_IF_ERROR(FillShared(at, loss, labels, weight, args.workspace));
    return FillGradient(at, {loss, labels, InPtr<float>(args, 0), InPtr<float>(args, 1), weight,
                             static_cast<const Shared*>(args.workspace), OutPtr<float>(args)});
  };
  return MakeCudaKernel(run, SharedWorkspace(loss));
}

absl::StatusOr<CudaKernel> MakeNllGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const ClassLoss loss =
      ClassLossOf(node, Out(graph, node).type.shape, In(graph, node, 1).type.dtype);
  const auto run = [loss](const Launch& at, const KernelArgs& args) -> absl::Status {
    const Labels labels = loss.labels(args.in[1]);
    const float* weight = InPtr<float>(args, 2);
    EBB_RETURN_IF_ERROR(FillShared(at, loss, labels, weight, args.workspace));
    return FillGradient(at, {loss, labels, InPtr<float>(args, 0), nullptr, weight,
                             static_cast<const Shared*>(args.workspace), OutPtr<float>(args)});
  };
  return MakeCudaKernel(run, SharedWorkspace(loss));
}

// ---- Losses over elements.

template <class L>
struct LossOf {
  EBB_INLINE float operator()(float x, float t) const { return L::Loss(x, t); }
};

template <class L>
struct SumOfLosses {
  using Sum = FloatSum;
  EBB_INLINE Sum Zero() const { return {0, 0}; }
  EBB_INLINE void Add(Sum& sum, int64_t, int64_t i) const { sum.Add(L::Loss(x[i], t[i])); }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const { sum.Join(other); }
  EBB_INLINE void Done(int64_t, const Sum& sum) const {
    *out = static_cast<float>(sum.Wide() / divisor);
  }
  const float* x;
  const float* t;
  float* out;
  double divisor;
};

template <class L>
absl::StatusOr<CudaKernel> MakeElementLoss(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const int64_t n = NumElements(In(graph, node).type.shape);
  const LossReduction reduction = LossReductionOf(node);
  if (reduction == LossReduction::kNone) {
    return MakeCudaKernel([n](const Launch& at, const KernelArgs& args) {
      return Map(at, n, LossOf<L>(), OutPtr<float>(args), InPtr<float>(args, 0),
                 InPtr<float>(args, 1));
    });
  }
  const double divisor = reduction == LossReduction::kMean ? static_cast<double>(n) : 1.0;
  return MakeCudaKernel(
      [n, divisor](const Launch& at, const KernelArgs& args) {
        return Sums(at, SumsBy::kRows, 1, n,
                    SumOfLosses<L>{InPtr<float>(args, 0), InPtr<float>(args, 1),
                                   OutPtr<float>(args), divisor},
                    args.workspace);
      },
      SumsWorkspace<SumOfLosses<L>>(SumsBy::kRows, 1, n));
}

template <class L>
struct SlopeOfEach {
  EBB_INLINE float operator()(float dloss, float x, float t) const {
    return dloss * L::Slope(x, t);
  }
};
template <class L>
struct SlopeOfAll {
  EBB_INLINE float operator()(float x, float t) const { return *dloss * mean * L::Slope(x, t); }
  const float* dloss;
  float mean;
};

template <class L>
absl::StatusOr<CudaKernel> MakeElementGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const int64_t n = OutElements(graph, node);
  const LossReduction reduction = LossReductionOf(node);
  if (reduction == LossReduction::kNone) {
    return MakeCudaKernel([n](const Launch& at, const KernelArgs& args) {
      return Map(at, n, SlopeOfEach<L>(), OutPtr<float>(args), InPtr<float>(args, 0),
                 InPtr<float>(args, 1), InPtr<float>(args, 2));
    });
  }
  const float mean =
      reduction == LossReduction::kMean ? static_cast<float>(1.0 / static_cast<double>(n)) : 1.0f;
  return MakeCudaKernel([n, mean](const Launch& at, const KernelArgs& args) {
    return Map(at, n, SlopeOfAll<L>{InPtr<float>(args, 0), mean}, OutPtr<float>(args),
               InPtr<float>(args, 1), InPtr<float>(args, 2));
  });
}

constexpr CudaKernelRow kRows[] = {
    {"BceWithLogits", MakeElementLoss<math::Bce>},
    {"BceWithLogitsGrad", MakeElementGrad<math::Bce>},
    {"CrossEntropy", MakeCrossEntropy},
    {"CrossEntropyGrad", MakeCrossEntropyGrad},
    {"MseLoss", MakeElementLoss<math::Mse>},
    {"MseLossGrad", MakeElementGrad<math::Mse>},
    {"NllLoss", MakeNll},
    {"NllLossGrad", MakeNllGrad},
};

}  // namespace

absl::Span<const CudaKernelRow> LossKernels() { return kRows; }

}  // namespace ebb::device::cuda
