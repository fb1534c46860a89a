// Softmax and LogSoftmax along one axis, and their gradients.
#include "base/status.h"
#include "device/cuda/softmax.h"

namespace ebb::device::cuda {
namespace {

using enum SoftmaxOutput;

template <SoftmaxOutput kOutput>
absl::StatusOr<CudaKernel> MakeSoftmax(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const AxisForm form = AxisFormOf(In(graph, node).type.shape, node.attrs.Int("axis", 0));
  const Masked masked = node.attrs.Int("zero_masked", 0) != 0 ? Masked::kZero : Masked::kNan;
  return MakeCudaKernel([form, masked](const Launch& at, const KernelArgs& args) {
    return Lines(at, RowsOf(form), form.rows(), form.length,
                 SoftmaxOf<kOutput>{form, masked, InPtr<float>(args), OutPtr<float>(args)});
  });
}

// From dy and y: dx = y (dy - sum dy y), or dy - e^y sum dy for the logarithm.
template <SoftmaxOutput kOutput>
struct GradientOf {
  struct Sum {
    float value;
  };
  static constexpr bool kEach = true;
  EBB_INLINE Sum Zero() const { return {0}; }
  EBB_INLINE void Add(Sum& sum, int64_t row, int64_t i) const {
    const int64_t at = form.At(row, i);
    sum.value += kOutput == kLog ? dy[at] : dy[at] * y[at];
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const { sum.value += other.value; }
  EBB_INLINE void Done(int64_t, const Sum&) const {}
  EBB_INLINE void Each(int64_t row, int64_t i, const Sum& sum) const {
    const int64_t at = form.At(row, i);
    dx[at] = kOutput == kLog ? dy[at] - Exp(y[at]) * sum.value : (dy[at] - sum.value) * y[at];
  }
  AxisForm form;
  const float* dy;
  const float* y;
  float* dx;
};

template <SoftmaxOutput kOutput>
absl::StatusOr<CudaKernel> MakeGradient(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const AxisForm form = AxisFormOf(In(graph, node).type.shape, node.attrs.Int("axis", 0));
  return MakeCudaKernel([form](const Launch& at, const KernelArgs& args) {
    return Lines(at, RowsOf(form), form.rows(), form.length,
                 GradientOf<kOutput>{form, InPtr<float>(args, 0), InPtr<float>(args, 1),
                                     OutPtr<float>(args)});
  });
}

constexpr CudaKernelRow kRows[] = {
    {"LogSoftmax", MakeSoftmax<kLog>},
    {"LogSoftmaxGrad", MakeGradient<kLog>},
    {"Softmax", MakeSoftmax<kProbability>},
    {"SoftmaxGrad", MakeGradient<kProbability>},
};

}  // namespace

absl::Span<const CudaKernelRow> SoftmaxKernels() { return kRows; }

}  // namespace ebb::device::cuda
