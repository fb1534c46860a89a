// Local response normalisation across channels. In either layout a step of one channel is a fixed
// distance in memory, so a window is `size` shifted reads of a padded copy.
#include "device/common/lrn.h"

#include <algorithm>
#include <cmath>

#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

// Floats of a block with the windows of its first and last channels.
int64_t PaddedSize(const LrnForm& form) { return form.block + (form.size - 1) * form.distance; }

EBB_CLONES void AddShifted(const float* x, float* sum, int64_t n) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

// sum[i] = the window of `padded` around i.
void WindowSums(const LrnForm& form, const float* padded, float* sum) {
  std::copy_n(padded, form.block, sum);
  for (int64_t t = 1; t < form.size; ++t) AddShifted(padded + t * form.distance, sum, form.block);
}

void ZeroEnds(const LrnForm& form, int64_t before, float* padded) {
  const int64_t head = before * form.distance;
  std::fill_n(padded, head, 0.0f);
  std::fill_n(padded + head + form.block, PaddedSize(form) - form.block - head, 0.0f);
}

void SquareSums(const LrnForm& form, const float* x, float* padded, float* sum) {
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

Bytes WorkspaceOf(const LrnForm& form) {
  return Bytes((PaddedSize(form) + form.block) * static_cast<int64_t>(sizeof(float)));
}

template <class Power>
Kernel ForwardOf(const LrnForm& form) {
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
Kernel BackwardOf(const LrnForm& form) {
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
  const LrnForm form = LrnFormOf(graph, node);
  return form.beta == 0.75f ? ForwardOf<PowerThreeQuarters>(form) : ForwardOf<PowerAny>(form);
}

absl::StatusOr<Kernel> MakeLrnGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  if (In(graph, node, 0).layout != In(graph, node, 1).layout) {
    return absl::UnimplementedError("LrnGrad on cpu mixes layouts");
  }
  const LrnForm form = LrnFormOf(graph, node);
  return form.beta == 0.75f ? BackwardOf<PowerThreeQuarters>(form) : BackwardOf<PowerAny>(form);
}

constexpr KernelRow kRows[] = {{"Lrn", MakeLrn}, {"LrnGrad", MakeLrnGrad}};

}  // namespace

absl::Span<const KernelRow> LrnKernels() { return kRows; }

}  // namespace ebb::device::cpu
