// Losses over classes and over elements, and their gradients. Sums run in double in memory order.
#include "device/math/loss.h"

#include <algorithm>
#include <cmath>

#include "device/common/classes.h"
#include "device/cpu/common.h"
#include "device/cpu/softmax.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

struct ClassLoss {
  ClassForm form;
  DType label_type = DType::kI64;
  int64_t ignore = -100;
  double smoothing = 0;
  LossReduction reduction = LossReduction::kMean;

  Labels labels(const void* data) const { return {data, label_type, form.classes, ignore}; }
  static float Weight(const float* weight, int64_t c) {
    return weight == nullptr ? 1.0f : weight[c];
  }
  // The divisor of the mean: the summed weights of the counted labels.
  double Counted(const Labels& labels, const float* weight) const {
    double sum = 0;
    for (int64_t i = 0; i < form.positions(); ++i) {
      if (labels[i] >= 0) sum += static_cast<double>(Weight(weight, labels[i]));
    }
    return sum;
  }
  double WeightSum(const float* weight) const {
    if (weight == nullptr) return static_cast<double>(form.classes);
    double sum = 0;
    for (int64_t c = 0; c < form.classes; ++c) sum += static_cast<double>(weight[c]);
    return sum;
  }
  // What dloss is multiplied with at every position.
  double Share(const Labels& labels, const float* weight) const {
    return reduction == LossReduction::kMean ? 1.0 / Counted(labels, weight) : 1.0;
  }
};

ClassLoss ClassLossOf(const Node& node, const Shape& scores, DType label_type) {
  ClassLoss loss;
  loss.form = ClassFormOf(scores);
  loss.label_type = label_type;
  loss.ignore = node.attrs.Int("ignore_index", -100);
  loss.smoothing = node.attrs.Float("label_smoothing", 0);
  loss.reduction = LossReductionOf(node);
  return loss;
}

EBB_CLONES double SumRow(const float* x, int64_t n) {
  return BlockedSum(n, [x](int64_t i) { return x[i]; });
}

// -(1 - smoothing) w_y log p_y - smoothing / C sum_c w_c log p_c
double PositionLoss(const ClassLoss& loss, const float* log_prob, int64_t label,
                    const float* weight) {
  const int64_t step = loss.form.inner;
  double value = -static_cast<double>(ClassLoss::Weight(weight, label)) *
                 static_cast<double>(log_prob[label * step]);
  if (loss.smoothing == 0) return value;
  double all = 0;
  if (weight == nullptr && step == 1) {
    all = SumRow(log_prob, loss.form.classes);
  } else {
    for (int64_t c = 0; c < loss.form.classes; ++c) {
      all += static_cast<double>(ClassLoss::Weight(weight, c)) *
             static_cast<double>(log_prob[c * step]);
    }
  }
  return (1 - loss.smoothing) * value -
         loss.smoothing / static_cast<double>(loss.form.classes) * all;
}

void ReducePositions(const ClassLoss& loss, const float* log_prob, const Labels& labels,
                     const float* weight, float* out) {
  const int64_t inner = loss.form.inner;
  double sum = 0;
  for (int64_t i = 0; i < loss.form.positions(); ++i) {
    const int64_t label = labels[i];
    const float* at = log_prob + (i / inner) * loss.form.classes * inner + i % inner;
    const double value = label < 0 ? 0.0 : PositionLoss(loss, at, label, weight);
    if (loss.reduction == LossReduction::kNone) out[i] = static_cast<float>(value);
    sum += value;
  }
  if (loss.reduction == LossReduction::kNone) return;
  out[0] = static_cast<float>(sum * loss.Share(labels, weight));
}

absl::StatusOr<Kernel> MakeCrossEntropy(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const ClassLoss loss =
      ClassLossOf(node, In(graph, node, 0).type.shape, In(graph, node, 1).type.dtype);
  return MakeKernel([loss](const KernelArgs& args) {
    const auto [batch, classes, inner] = loss.form;
    float* log_prob = OutPtr<float>(args, 1);
    for (int64_t n = 0; n < batch && classes > 0; ++n) {
      const float* x = InPtr<float>(args) + n * classes * inner;
      if (inner == 1) {
        LogSoftmaxRow(x, log_prob + n * classes, classes);
      } else {
        LogSoftmaxStrided(x, log_prob + n * classes * inner, classes, inner);
      }
    }
    ReducePositions(loss, log_prob, loss.labels(args.in[1]), InPtr<float>(args, 2),
                    OutPtr<float>(args));
    return absl::OkStatus();
  });
}

// dx_c = share * (mass p_c - smooth w_c - [c = label] hot)
EBB_CLONES void CrossEntropyGradRow(const float* log_prob, float* dx, int64_t n, int64_t step,
                                    float mass, const float* weight, float smooth) {
  if (step == 1 && weight == nullptr) {
    EBB_IVDEP
    for (int64_t c = 0; c < n; ++c) dx[c] = mass * Exp(log_prob[c]) - smooth;
    return;
  }
  EBB_IVDEP
  for (int64_t c = 0; c < n; ++c) {
    const float w = weight == nullptr ? 1.0f : weight[c];
    dx[c * step] = mass * Exp(log_prob[c * step]) - smooth * w;
  }
}

absl::StatusOr<Kernel> MakeCrossEntropyGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const ClassLoss loss =
      ClassLossOf(node, In(graph, node, 1).type.shape, In(graph, node, 2).type.dtype);
  return MakeKernel([loss](const KernelArgs& args) {
    const auto [batch, classes, inner] = loss.form;
    const float* dloss = InPtr<float>(args, 0);
    const float* weight = InPtr<float>(args, 3);
    const Labels labels = loss.labels(args.in[2]);
    const double share = loss.Share(labels, weight);
    const double smooth = loss.smoothing / static_cast<double>(classes);
    const double spread = smooth * loss.WeightSum(weight);
    for (int64_t i = 0; i < loss.form.positions(); ++i) {
      const int64_t at = (i / inner) * classes * inner + i % inner;
      float* dx = OutPtr<float>(args) + at;
      const int64_t label = labels[i];
      if (label < 0) {
        for (int64_t c = 0; c < classes; ++c) dx[c * inner] = 0;
        continue;
      }
      const double g =
          share * static_cast<double>(dloss[loss.reduction == LossReduction::kNone ? i : 0]);
      const double hot =
          (1 - loss.smoothing) * static_cast<double>(ClassLoss::Weight(weight, label));
      CrossEntropyGradRow(InPtr<float>(args, 1) + at, dx, classes, inner,
                          static_cast<float>(g * (hot + spread)), weight,
                          static_cast<float>(g * smooth));
      dx[label * inner] -= static_cast<float>(g * hot);
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeNll(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const ClassLoss loss =
      ClassLossOf(node, In(graph, node, 0).type.shape, In(graph, node, 1).type.dtype);
  return MakeKernel([loss](const KernelArgs& args) {
    ReducePositions(loss, InPtr<float>(args), loss.labels(args.in[1]), InPtr<float>(args, 2),
                    OutPtr<float>(args));
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeNllGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const ClassLoss loss =
      ClassLossOf(node, Out(graph, node).type.shape, In(graph, node, 1).type.dtype);
  return MakeKernel([loss, n = OutElements(graph, node)](const KernelArgs& args) {
    const auto [batch, classes, inner] = loss.form;
    const float* dloss = InPtr<float>(args, 0);
    const float* weight = InPtr<float>(args, 2);
    const Labels labels = loss.labels(args.in[1]);
    const double share = loss.Share(labels, weight);
    float* dx = OutPtr<float>(args);
    std::fill_n(dx, n, 0.0f);
    for (int64_t i = 0; i < loss.form.positions(); ++i) {
      const int64_t label = labels[i];
      if (label < 0) continue;
      const double g = static_cast<double>(dloss[loss.reduction == LossReduction::kNone ? i : 0]);
      dx[(i / inner) * classes * inner + label * inner + i % inner] =
          static_cast<float>(-g * share * static_cast<double>(ClassLoss::Weight(weight, label)));
    }
    return absl::OkStatus();
  });
}

// ---- Losses over elements.

using math::Bce;
using math::Mse;

template <class L>
EBB_CLONES double SumLosses(const float* x, const float* t, int64_t n) {
  return BlockedSum(n, [x, t](int64_t i) { return L::Loss(x[i], t[i]); });
}

template <class L>
absl::StatusOr<Kernel> MakeElementLoss(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const int64_t n = NumElements(In(graph, node).type.shape);
  const LossReduction reduction = LossReductionOf(node);
  return MakeKernel([n, reduction](const KernelArgs& args) {
    const float* x = InPtr<float>(args, 0);
    const float* t = InPtr<float>(args, 1);
    if (reduction == LossReduction::kNone) {
      Map2(x, t, OutPtr<float>(args), n, [](float a, float b) { return L::Loss(a, b); });
      return absl::OkStatus();
    }
    const double sum = SumLosses<L>(x, t, n);
    *OutPtr<float>(args) =
        static_cast<float>(reduction == LossReduction::kMean ? sum / static_cast<double>(n) : sum);
    return absl::OkStatus();
  });
}

template <class L>
EBB_CLONES void EachSlope(const float* dloss, const float* x, const float* t, float* dx,
                          int64_t n) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) dx[i] = dloss[i] * L::Slope(x[i], t[i]);
}

template <class L>
absl::StatusOr<Kernel> MakeElementGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const int64_t n = OutElements(graph, node);
  const LossReduction reduction = LossReductionOf(node);
  return MakeKernel([n, reduction](const KernelArgs& args) {
    const float* dloss = InPtr<float>(args, 0);
    const float* x = InPtr<float>(args, 1);
    const float* t = InPtr<float>(args, 2);
    if (reduction == LossReduction::kNone) {
      EachSlope<L>(dloss, x, t, OutPtr<float>(args), n);
      return absl::OkStatus();
    }
    const double mean = reduction == LossReduction::kMean ? 1.0 / static_cast<double>(n) : 1.0;
    const float g = static_cast<float>(static_cast<double>(*dloss) * mean);
    Map2(x, t, OutPtr<float>(args), n, [g](float a, float b) { return g * L::Slope(a, b); });
    return absl::OkStatus();
  });
}

constexpr KernelRow kRows[] = {
    {"BceWithLogits", MakeElementLoss<Bce>},
    {"BceWithLogitsGrad", MakeElementGrad<Bce>},
    {"CrossEntropy", MakeCrossEntropy},
    {"CrossEntropyGrad", MakeCrossEntropyGrad},
    {"MseLoss", MakeElementLoss<Mse>},
    {"MseLossGrad", MakeElementGrad<Mse>},
    {"NllLoss", MakeNll},
    {"NllLossGrad", MakeNllGrad},
};

}  // namespace

absl::Span<const KernelRow> LossKernels() { return kRows; }

}  // namespace ebb::device::cpu
