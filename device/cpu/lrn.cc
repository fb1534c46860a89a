// Local response normalisation across channels. In either layout a step of one channel is a fixed
// distance in memory, so a window is `size` shifted reads of a padded copy.
#include <algorithm>
#include <cmath>

#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

struct Form {
  int64_t outer = 0;
  int64_t block = 0;  // channels * distance
  int64_t distance = 1;
  int64_t size = 1;
  int64_t before = 0, after = 0;
  float alpha = 0, beta = 0, bias = 0;  // alpha is already divided by size

  int64_t padded() const { return block + (size - 1) * distance; }
};

Form FormOf(const Graph& graph, const Node& node) {
  const Value& x = In(graph, node);
  Form form;
  int64_t spatial = 1;
  for (size_t d = 2; d < x.type.shape.size(); ++d) spatial *= x.type.shape[d];
  const bool last = x.layout == Layout::kChannelsLast;
  form.outer = x.type.shape[0] * (last ? spatial : 1);
  form.distance = last ? 1 : spatial;
  form.block = x.type.shape[1] * form.distance;
  form.size = node.attrs.Int("size", 1);
  form.before = (form.size - 1) / 2;
  form.after = form.size - 1 - form.before;
  form.alpha = static_cast<float>(node.attrs.Float("alpha", 1e-4) / static_cast<double>(form.size));
  form.beta = static_cast<float>(node.attrs.Float("beta", 0.75));
  form.bias = static_cast<float>(node.attrs.Float("bias", 1));
  return form;
}

// s^-beta; the exponent that every model has needs no pow().
struct PowerThreeQuarters {
  explicit PowerThreeQuarters(float) {}
  EBB_INLINE float operator()(float s) const {
    const float root = std::sqrt(s);
    return 1.0f / (root * std::sqrt(root));
  }
};
struct PowerAny {
  explicit PowerAny(float beta) : beta(beta) {}
  EBB_INLINE float operator()(float s) const { return std::pow(s, -beta); }
  float beta;
};

EBB_CLONES void AddShifted(const float* x, float* sum, int64_t n) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

// sum[i] = the window of `padded` around i.
void WindowSums(const Form& form, const float* padded, float* sum) {
  std::copy_n(padded, form.block, sum);
  for (int64_t t = 1; t < form.size; ++t) AddShifted(padded + t * form.distance, sum, form.block);
}

void ZeroEnds(const Form& form, int64_t before, float* padded) {
  const int64_t head = before * form.distance;
  std::fill_n(padded, head, 0.0f);
  std::fill_n(padded + head + form.block, form.padded() - form.block - head, 0.0f);
}

void SquareSums(const Form& form, const float* x, float* padded, float* sum) {
  ZeroEnds(form, form.before, padded);
  Map1(x, padded + form.before * form.distance, form.block, [](float v) { return v * v; });
  WindowSums(form, padded, sum);
}

template <class Power>
EBB_CLONES void Scale(const float* x, const float* sum, float* y, int64_t n, float alpha,
                      float bias, Power power) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * power(bias + alpha * sum[i]);
}

template <class Power>
EBB_CLONES void Couplings(const float* dy, const float* x, const float* sum, float* out, int64_t n,
                          float alpha, float bias, Power power) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) {
    const float s = bias + alpha * sum[i];
    out[i] = dy[i] * x[i] * power(s) / s;
  }
}

EBB_CLONES void Subtract(const float* x, const float* sum, float* dx, int64_t n, float factor) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) dx[i] -= factor * x[i] * sum[i];
}

Bytes WorkspaceOf(const Form& form) {
  return Bytes((form.padded() + form.block) * static_cast<int64_t>(sizeof(float)));
}

template <class Power>
Kernel ForwardOf(const Form& form) {
  return MakeKernel(
      [form](const KernelArgs& args) {
        float* sum = static_cast<float*>(args.workspace);
        for (int64_t o = 0; o < form.outer; ++o) {
          const float* x = InPtr<float>(args) + o * form.block;
          SquareSums(form, x, sum + form.block, sum);
          Scale(x, sum, OutPtr<float>(args) + o * form.block, form.block, form.alpha, form.bias,
                Power(form.beta));
        }
        return absl::OkStatus();
      },
      WorkspaceOf(form));
}

// dx_c = dy_c s_c^-beta - 2 alpha/size beta x_c sum over windows j that hold c of dy_j x_j
// s_j^-beta-1
template <class Power>
Kernel BackwardOf(const Form& form) {
  return MakeKernel(
      [form](const KernelArgs& args) {
        float* sum = static_cast<float*>(args.workspace);
        float* padded = sum + form.block;
        for (int64_t o = 0; o < form.outer; ++o) {
          const float* dy = InPtr<float>(args, 0) + o * form.block;
          const float* x = InPtr<float>(args, 1) + o * form.block;
          float* dx = OutPtr<float>(args) + o * form.block;
          SquareSums(form, x, padded, sum);
          ZeroEnds(form, form.after, padded);
          Couplings(dy, x, sum, padded + form.after * form.distance, form.block, form.alpha,
                    form.bias, Power(form.beta));
          Scale(dy, sum, dx, form.block, form.alpha, form.bias, Power(form.beta));
          WindowSums(form, padded, sum);
          Subtract(x, sum, dx, form.block, 2.0f * form.alpha * form.beta);
        }
        return absl::OkStatus();
      },
      WorkspaceOf(form));
}

absl::StatusOr<Kernel> MakeLrn(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  const Form form = FormOf(graph, node);
  return form.beta == 0.75f ? ForwardOf<PowerThreeQuarters>(form) : ForwardOf<PowerAny>(form);
}

absl::StatusOr<Kernel> MakeLrnGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  if (In(graph, node, 0).layout != In(graph, node, 1).layout) {
    return absl::UnimplementedError("LrnGrad on cpu mixes layouts");
  }
  const Form form = FormOf(graph, node);
  return form.beta == 0.75f ? BackwardOf<PowerThreeQuarters>(form) : BackwardOf<PowerAny>(form);
}

constexpr KernelRow kRows[] = {{"Lrn", MakeLrn}, {"LrnGrad", MakeLrnGrad}};

}  // namespace

absl::Span<const KernelRow> LrnKernels() { return kRows; }

}  // namespace ebb::device::cpu
