// Batch normalisation over [N,C,S], plain or channels last, and its gradients.
#include <cmath>

#include "base/status.h"
#include "device/common/batch_form.h"
#include "device/common/dispatch.h"
#include "device/cuda/lines.h"
#include "device/cuda/norm_row.h"

namespace ebb::device::cuda {
namespace {

// A channel's elements are a sum; side by side in memory where channels are not.
SumsBy By(const BatchForm& form) { return form.inner == 1 ? SumsBy::kColumns : SumsBy::kRows; }

// Elements as rows of neighbours: f(row, i).
template <class F>
absl::Status ForElements(const Launch& at, const BatchForm& form, const F& f) {
  if (form.inner == 1) return Cells(at, form.outer, form.channels, f);
  return Cells(at, form.outer * form.channels, form.inner, f);
}
struct Element {
  int64_t at, channel;
};
EBB_INLINE Element ElementAt(const BatchForm& form, int64_t row, int64_t i) {
  if (form.inner == 1) return {row * form.channels + i, i};
  return {row * form.inner + i, row % form.channels};
}

// What x - mean is multiplied with.
EBB_INLINE float SlopeOf(float scale, float var, double epsilon) {
  return static_cast<float>(static_cast<double>(scale) /
                            std::sqrt(static_cast<double>(var) + epsilon));
}

template <class T>
struct Statistics {
  using Sum = math::Moments;
  EBB_INLINE Sum Zero() const { return Sum::None(); }
  EBB_INLINE void Add(Sum& sum, int64_t c, int64_t i) const { sum.Add(Read(x[form.At(c, i)])); }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const { sum.Join(other); }
  EBB_INLINE void Done(int64_t c, const Sum& sum) const {
    const auto n = static_cast<double>(form.count());
    const double unbiased = n > 1 ? n / (n - 1) : 1.0;
    mean[c] = sum.Mean();
    var[c] = sum.Variance();
    slope[c] = SlopeOf(scale[c], var[c], epsilon);
    running_mean[c] = static_cast<float>((1 - momentum) * static_cast<double>(running_mean[c]) +
                                         momentum * static_cast<double>(mean[c]));
    running_var[c] = static_cast<float>((1 - momentum) * static_cast<double>(running_var[c]) +
                                        momentum * (static_cast<double>(var[c]) * unbiased));
  }
  BatchForm form;
  double epsilon, momentum;
  const T* x;
  const float* scale;
  float* mean;
  float* var;
  float* slope;
  float* running_mean;
  float* running_var;
};

template <class T>
struct Normalize {
  EBB_INLINE void operator()(int64_t row, int64_t i) const {
    const auto [at, c] = ElementAt(form, row, i);
    y[at] = Stored<T>((Read(x[at]) - mean[c]) * slope[c] + bias[c]);
  }
  BatchForm form;
  const T* x;
  const float* mean;
  const float* slope;
  const float* bias;
  T* y;
};

// `channels` floats at the start of the workspace, and what comes behind.
Bytes Floats(int64_t channels) { return Bytes((channels + 3) / 4 * 16); }
void* Behind(void* workspace, Bytes bytes) { return static_cast<char*>(workspace) + bytes.count(); }

template <class T>
CudaKernel BatchNormOf(const Graph& graph, const Node& node) {
  const BatchForm form = BatchFormOf(In(graph, node));
  const double epsilon = node.attrs.Float("epsilon", 1e-5);
  const double momentum = node.attrs.Float("momentum", 0.1);
  const auto run = [=](const Launch& at, const KernelArgs& args) -> absl::Status {
    const T* x = InPtr<T>(args, 0);
    float* mean = OutPtr<float>(args, 1);
    float* slope = static_cast<float*>(args.workspace);
    const Statistics<T> statistics{form,
                                   epsilon,
                                   momentum,
                                   x,
                                   InPtr<float>(args, 1),
                                   mean,
                                   OutPtr<float>(args, 2),
                                   slope,
                                   MutablePtr<float>(args, 3),
                                   MutablePtr<float>(args, 4)};
    EBB_RETURN_IF_ERROR(Sums(at, By(form), form.channels, form.count(), statistics,
                             Behind(slope, Floats(form.channels))));
    return ForElements(at, form,
                       Normalize<T>{form, x, mean, slope, InPtr<float>(args, 2), OutPtr<T>(args)});
  };
  return MakeCudaKernel(run, Floats(form.channels) + SumsWorkspace<Statistics<T>>(
                                                         By(form), form.channels, form.count()));
}

// By what the activations are stored in.
absl::StatusOr<CudaKernel> MakeBatchNorm(const Graph& graph, const Node& node) {
  return ForFloat(node, In(graph, node).type.dtype,
                  [&](auto zero) { return BatchNormOf<decltype(zero)>(graph, node); });
}

struct FillSlopes {
  EBB_INLINE void operator()(int64_t c) const { slope[c] = SlopeOf(scale[c], var[c], epsilon); }
  double epsilon;
  const float* scale;
  const float* var;
  float* slope;
};

template <class T>
CudaKernel InferenceOf(const Graph& graph, const Node& node) {
  const BatchForm form = BatchFormOf(In(graph, node));
  const double epsilon = node.attrs.Float("epsilon", 1e-5);
  const auto run = [=](const Launch& at, const KernelArgs& args) -> absl::Status {
    float* slope = static_cast<float*>(args.workspace);
    EBB_RETURN_IF_ERROR(
        ForEach(at, form.channels,
                FillSlopes{epsilon, InPtr<float>(args, 1), InPtr<float>(args, 4), slope}));
    return ForElements(at, form,
                       Normalize<T>{form, InPtr<T>(args, 0), InPtr<float>(args, 3), slope,
                                    InPtr<float>(args, 2), OutPtr<T>(args)});
  };
  return MakeCudaKernel(run, Floats(form.channels));
}

absl::StatusOr<CudaKernel> MakeInference(const Graph& graph, const Node& node) {
  return ForFloat(node, In(graph, node).type.dtype,
                  [&](auto zero) { return InferenceOf<decltype(zero)>(graph, node); });
}

// ---- Gradients: dx = slope dy + shift + tilt (x - mean).

enum class Source { kBatch, kFixed };  // of the statistics: fixed ones do not depend on x

struct Coefficients {
  float slope, shift, tilt;
};

template <class T>
struct GradientSums : SumAndDot {
  EBB_INLINE void Add(Sum& sum, int64_t c, int64_t i) const {
    const int64_t at = form.At(c, i);
    const float d = Read(dy[at]);
    sum.sum.Add(d);
    sum.dot.Add(d * (Read(x[at]) - mean[c]));
  }
  EBB_INLINE void Done(int64_t c, const Sum& sum) const {
    const double variance = static_cast<double>(var[c]) + epsilon;
    const double slope = static_cast<double>(scale[c]) / std::sqrt(variance);
    const double total = sum.sum.Wide();
    const double dot = sum.dot.Wide();
    dscale[c] = static_cast<float>(dot / std::sqrt(variance));
    dbias[c] = static_cast<float>(total);
    const bool fixed = source == Source::kFixed;
    const double share = fixed ? 0.0 : slope / static_cast<double>(form.count());
    out[c] = {static_cast<float>(slope), static_cast<float>(-share * total),
              static_cast<float>(-share * dot / variance)};
  }
  BatchForm form;
  Source source;
  double epsilon;
  const T* dy;
  const T* x;
  const float* scale;
  const float* mean;
  const float* var;
  float* dscale;
  float* dbias;
  Coefficients* out;
};

template <class T>
struct InputGradient {
  EBB_INLINE void operator()(int64_t row, int64_t i) const {
    const auto [at, c] = ElementAt(form, row, i);
    const Coefficients k = coefficients[c];
    const float offset = Read(x[at]) - mean[c];
    dx[at] = Stored<T>((Read(dy[at]) * k.slope + k.shift) + offset * k.tilt);
  }
  BatchForm form;
  const T* dy;
  const T* x;
  const float* mean;
  const Coefficients* coefficients;
  T* dx;
};

template <class T>
CudaKernel GradientOf(const Graph& graph, const Node& node, Source source) {
  const BatchForm form = BatchFormOf(In(graph, node, 1));
  const double epsilon = node.attrs.Float("epsilon", 1e-5);
  const Bytes coefficients = Floats(3 * form.channels);
  const auto run = [=](const Launch& at, const KernelArgs& args) -> absl::Status {
    const T* dy = InPtr<T>(args, 0);
    const T* x = InPtr<T>(args, 1);
    const float* mean = InPtr<float>(args, 3);
    auto* const out = static_cast<Coefficients*>(args.workspace);
    const GradientSums<T> sums{{},
                               form,
                               source,
                               epsilon,
                               dy,
                               x,
                               InPtr<float>(args, 2),
                               mean,
                               InPtr<float>(args, 4),
                               OutPtr<float>(args, 1),
                               OutPtr<float>(args, 2),
                               out};
    // First, as dx may be written over dy.
    EBB_RETURN_IF_ERROR(Sums(at, By(form), form.channels, form.count(), sums,
                             Behind(args.workspace, coefficients)));
    return ForElements(at, form, InputGradient<T>{form, dy, x, mean, out, OutPtr<T>(args)});
  };
  return MakeCudaKernel(
      run, coefficients + SumsWorkspace<GradientSums<T>>(By(form), form.channels, form.count()));
}

template <Source kSource>
absl::StatusOr<CudaKernel> MakeGradient(const Graph& graph, const Node& node) {
  if (In(graph, node, 0).layout != In(graph, node, 1).layout) {
    return absl::UnimplementedError("batch norm gradient on cuda mixes layouts");
  }
  return ForFloat(node, In(graph, node).type.dtype,
                  [&](auto zero) { return GradientOf<decltype(zero)>(graph, node, kSource); });
}

constexpr CudaKernelRow kRows[] = {
    {"BatchNorm", MakeBatchNorm},
    {"BatchNormGrad", MakeGradient<Source::kBatch>},
    {"BatchNormInference", MakeInference},
    {"BatchNormInferenceGrad", MakeGradient<Source::kFixed>},
};

}  // namespace

absl::Span<const CudaKernelRow> BatchNormKernels() { return kRows; }

}  // namespace ebb::device::cuda
