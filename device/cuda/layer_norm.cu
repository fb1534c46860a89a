// Layer normalisation: every row of contiguous elements by its own mean and deviation.
#include <cmath>

#include "base/status.h"
#include "device/common/norm_rows.h"
#include "device/cuda/lines.h"
#include "device/cuda/norm_row.h"

namespace ebb::device::cuda {
namespace {

struct Normalize : RowMoments {
  EBB_INLINE void Each(int64_t row, int64_t i, const Sum& sum) const {
    const float shift = bias == nullptr ? 0.0f : bias[i];
    y[row * size + i] = Normal(row, i, sum) * scale[i] + shift;
  }
  const float* scale;
  const float* bias;
  float* y;
};

absl::StatusOr<CudaKernel> MakeLayerNorm(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const NormRows rows = NormRowsOf(In(graph, node).type.shape, node.attrs.Int("axis", 0));
  const auto epsilon = static_cast<float>(node.attrs.Float("epsilon", 1e-5));
  return MakeCudaKernel([rows, epsilon](const Launch& at, const KernelArgs& args) {
    return Lines(at, SumsBy::kRows, rows.rows, rows.size,
                 Normalize{{rows.size, epsilon, InPtr<float>(args, 0), OutPtr<float>(args, 1),
                            OutPtr<float>(args, 2)},
                           InPtr<float>(args, 1),
                           InPtr<float>(args, 2),
                           OutPtr<float>(args, 0)});
  });
}

// What the gradient reads. With h = (x - mean) inverse and g = dy scale:
// dscale = sum of dy h, dbias = sum of dy over the rows, and in a row
// dx = inverse (g - mean(g) - h mean(g h)).
struct Gradient {
  EBB_INLINE float H(int64_t row, int64_t i) const {
    return (x[row * size + i] - mean[row]) * inverse[row];
  }
  int64_t size;
  const float* dy;
  const float* x;
  const float* scale;
  const float* mean;
  const float* inverse;
};

struct WeightGradients : SumAndDot {
  EBB_INLINE void Add(Sum& sum, int64_t i, int64_t row) const {
    const float d = in.dy[row * in.size + i];
    sum.dot.Add(d * in.H(row, i));
    sum.sum.Add(d);
  }
  EBB_INLINE void Done(int64_t i, const Sum& sum) const {
    dscale[i] = sum.dot.Total();
    dbias[i] = sum.sum.Total();
  }
  Gradient in;
  float* dscale;
  float* dbias;
};

struct InputGradient {
  struct Sum {
    float sum, dot;
  };
  static constexpr bool kEach = true;
  EBB_INLINE Sum Zero() const { return {0, 0}; }
  EBB_INLINE void Add(Sum& sum, int64_t row, int64_t i) const {
    const float g = in.dy[row * in.size + i] * in.scale[i];
    sum.sum += g;
    sum.dot += g * in.H(row, i);
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const {
    sum.sum += other.sum;
    sum.dot += other.dot;
  }
  EBB_INLINE void Done(int64_t, const Sum&) const {}
  EBB_INLINE void Each(int64_t row, int64_t i, const Sum& sum) const {
    const float share = 1.0f / static_cast<float>(in.size);
    const float g = in.dy[row * in.size + i] * in.scale[i];
    dx[row * in.size + i] =
        in.inverse[row] * ((g - sum.sum * share) - in.H(row, i) * (sum.dot * share));
  }
  Gradient in;
  float* dx;
};

absl::StatusOr<CudaKernel> MakeGradient(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const NormRows rows = NormRowsOf(In(graph, node, 1).type.shape, node.attrs.Int("axis", 0));
  const auto run = [rows](const Launch& at, const KernelArgs& args) -> absl::Status {
    const Gradient in{rows.size,
                      InPtr<float>(args, 0),
                      InPtr<float>(args, 1),
                      InPtr<float>(args, 2),
                      InPtr<float>(args, 3),
                      InPtr<float>(args, 4)};
    // First, as dx may be written over dy.
    EBB_RETURN_IF_ERROR(Sums(
        at, SumsBy::kColumns, rows.size, rows.rows,
        WeightGradients{{}, in, OutPtr<float>(args, 1), OutPtr<float>(args, 2)}, args.workspace));
    return Lines(at, SumsBy::kRows, rows.rows, rows.size, InputGradient{in, OutPtr<float>(args)});
  };
  return MakeCudaKernel(run,
                        SumsWorkspace<WeightGradients>(SumsBy::kColumns, rows.size, rows.rows));
}

constexpr CudaKernelRow kRows[] = {{"LayerNorm", MakeLayerNorm}, {"LayerNormGrad", MakeGradient}};

}  // namespace

absl::Span<const CudaKernelRow> LayerNormKernels() { return kRows; }

}  // namespace ebb::device::cuda
