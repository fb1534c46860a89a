// Local response normalisation across channels.
#include "base/status.h"
#include "device/common/lrn.h"
#include "device/cuda/launch.h"

namespace ebb::device::cuda {
namespace {

// s_i = bias + alpha * the sum of x^2 over the window of element i.
struct Windows {
  // Sum of f(at) over what lies `before` and `after` channels around element i.
  template <class F>
  EBB_INLINE float Sum(int64_t i, int64_t before, int64_t after, F f) const {
    const int64_t channels = form.channels;
    const int64_t c = i / form.distance % form.channels;
    const int64_t first = c < before ? 0 : c - before;
    const int64_t last = c + after < channels ? c + after : channels - 1;
    float sum = 0;
    for (int64_t k = first; k <= last; ++k) sum += f(i + (k - c) * form.distance);
    return sum;
  }
  EBB_INLINE float S(int64_t i) const {
    const float squares =
        Sum(i, form.before, form.after, [this](int64_t at) { return x[at] * x[at]; });
    return form.bias + form.alpha * squares;
  }
  LrnForm form;
  const float* x;
};

template <class Power>
struct Forward {
  EBB_INLINE void operator()(int64_t i) const { y[i] = windows.x[i] * power(windows.S(i)); }
  Windows windows;
  Power power;
  float* y;
};

template <class Power>
struct Couplings {
  EBB_INLINE void operator()(int64_t i) const {
    const float s = windows.S(i);
    out[i] = dy[i] * windows.x[i] * power(s) / s;
  }
  Windows windows;
  Power power;
  const float* dy;
  float* out;
};

// dx_c = dy_c s_c^-beta - 2 alpha beta x_c times the couplings of the windows that hold c.
template <class Power>
struct Backward {
  EBB_INLINE void operator()(int64_t i) const {
    const LrnForm& form = windows.form;
    const float through =
        windows.Sum(i, form.after, form.before, [this](int64_t at) { return couplings[at]; });
    dx[i] = dy[i] * power(windows.S(i)) - 2.0f * form.alpha * form.beta * windows.x[i] * through;
  }
  Windows windows;
  Power power;
  const float* dy;
  const float* couplings;
  float* dx;
};

template <class Power>
CudaKernel ForwardOf(const LrnForm& form) {
  return MakeCudaKernel([form](const Launch& at, const KernelArgs& args) {
    return ForEach(
        at, form.outer * form.block,
        Forward<Power>{{form, InPtr<float>(args)}, Power(form.beta), OutPtr<float>(args)});
  });
}

template <class Power>
CudaKernel BackwardOf(const LrnForm& form) {
  const int64_t n = form.outer * form.block;
  const auto run = [form, n](const Launch& at, const KernelArgs& args) -> absl::Status {
    const float* dy = InPtr<float>(args, 0);
    const Windows windows{form, InPtr<float>(args, 1)};
    auto* const couplings = static_cast<float*>(args.workspace);
    const Power power(form.beta);
    EBB_RETURN_IF_ERROR(ForEach(at, n, Couplings<Power>{windows, power, dy, couplings}));
    return ForEach(at, n, Backward<Power>{windows, power, dy, couplings, OutPtr<float>(args)});
  };
  return MakeCudaKernel(run, Bytes(n * static_cast<int64_t>(sizeof(float))));
}

absl::StatusOr<CudaKernel> MakeLrn(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  const LrnForm form = LrnFormOf(graph, node);
  return form.beta == 0.75f ? ForwardOf<PowerThreeQuarters>(form) : ForwardOf<PowerAny>(form);
}

absl::StatusOr<CudaKernel> MakeLrnGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  if (In(graph, node, 0).layout != In(graph, node, 1).layout) {
    return absl::UnimplementedError("LrnGrad on cuda mixes layouts");
  }
  const LrnForm form = LrnFormOf(graph, node);
  return form.beta == 0.75f ? BackwardOf<PowerThreeQuarters>(form) : BackwardOf<PowerAny>(form);
}

constexpr CudaKernelRow kRows[] = {{"Lrn", MakeLrn}, {"LrnGrad", MakeLrnGrad}};

}  // namespace

absl::Span<const CudaKernelRow> LrnKernels() { return kRows; }

}  // namespace ebb::device::cuda
