// Root mean square normalisation: every row of contiguous elements by its own scale.
#include <cmath>

#include "base/status.h"
#include "device/common/norm_rows.h"
#include "device/cuda/lines.h"
#include "device/math/sums.h"

namespace ebb::device::cuda {
namespace {

struct Normalize {
  struct Sum {
    float squares;
  };
  static constexpr bool kEach = true;
  EBB_INLINE Sum Zero() const { return {0}; }
  EBB_INLINE void Add(Sum& sum, int64_t row, int64_t i) const {
    const float v = x[row * size + i];
    sum.squares += v * v;
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const { sum.squares += other.squares; }
  EBB_INLINE float Inverse(const Sum& sum) const {
    return 1.0f / std::sqrt(sum.squares / static_cast<float>(size) + epsilon);
  }
  EBB_INLINE void Done(int64_t row, const Sum& sum) const { inverse[row] = Inverse(sum); }
  EBB_INLINE void Each(int64_t row, int64_t i, const Sum& sum) const {
    y[row * size + i] = x[row * size + i] * Inverse(sum) * scale[i];
  }
  int64_t size;
  float epsilon;
  const float* x;
  const float* scale;
  float* y;
  float* inverse;
};

absl::StatusOr<CudaKernel> MakeRmsNorm(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const NormRows rows = NormRowsOf(In(graph, node).type.shape, node.attrs.Int("axis", 0));
  const auto epsilon = static_cast<float>(node.attrs.Float("epsilon", 1e-5));
  return MakeCudaKernel([rows, epsilon](const Launch& at, const KernelArgs& args) {
    return Lines(at, SumsBy::kRows, rows.rows, rows.size,
                 Normalize{rows.size, epsilon, InPtr<float>(args, 0), InPtr<float>(args, 1),
                           OutPtr<float>(args, 0), OutPtr<float>(args, 1)});
  });
}

// What the gradient reads. With h = x inverse and g = dy scale: dscale = sum of dy h over the rows,
// and in a row dx = inverse (g - h mean(g h)).
struct Gradient {
  EBB_INLINE float H(int64_t row, int64_t i) const { return x[row * size + i] * inverse[row]; }
  int64_t size;
  const float* dy;
  const float* x;
  const float* scale;
  const float* inverse;
};

struct ScaleGradient {
  using Sum = math::FloatSum;
  EBB_INLINE Sum Zero() const { return {0, 0}; }
  EBB_INLINE void Add(Sum& sum, int64_t i, int64_t row) const {
    sum.Add(in.dy[row * in.size + i] * in.H(row, i));
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const { sum.Join(other); }
  EBB_INLINE void Done(int64_t i, const Sum& sum) const { dscale[i] = sum.Total(); }
  Gradient in;
  float* dscale;
};

struct InputGradient {
  struct Sum {
    float dot;
  };
  static constexpr bool kEach = true;
  EBB_INLINE Sum Zero() const { return {0}; }
  EBB_INLINE void Add(Sum& sum, int64_t row, int64_t i) const {
    sum.dot += in.dy[row * in.size + i] * in.scale[i] * in.H(row, i);
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const { sum.dot += other.dot; }
  EBB_INLINE void Done(int64_t, const Sum&) const {}
  EBB_INLINE void Each(int64_t row, int64_t i, const Sum& sum) const {
    const float slope = sum.dot / static_cast<float>(in.size);
    const float g = in.dy[row * in.size + i] * in.scale[i];
    dx[row * in.size + i] = in.inverse[row] * (g - in.H(row, i) * slope);
  }
  Gradient in;
  float* dx;
};

absl::StatusOr<CudaKernel> MakeGradient(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const NormRows rows = NormRowsOf(In(graph, node, 1).type.shape, node.attrs.Int("axis", 0));
  const auto run = [rows](const Launch& at, const KernelArgs& args) -> absl::Status {
    const Gradient in{rows.size, InPtr<float>(args, 0), InPtr<float>(args, 1),
                      InPtr<float>(args, 2), InPtr<float>(args, 3)};
    // First, as dx may be written over dy.
    EBB_RETURN_IF_ERROR(Sums(at, SumsBy::kColumns, rows.size, rows.rows,
                             ScaleGradient{in, OutPtr<float>(args, 1)}, args.workspace));
    return Lines(at, SumsBy::kRows, rows.rows, rows.size, InputGradient{in, OutPtr<float>(args)});
  };
  return MakeCudaKernel(run, SumsWorkspace<ScaleGradient>(SumsBy::kColumns, rows.size, rows.rows));
}

constexpr CudaKernelRow kRows[] = {{"RmsNorm", MakeRmsNorm}, {"RmsNormGrad", MakeGradient}};

}  // namespace

absl::Span<const CudaKernelRow> RmsNormKernels() { return kRows; }

}  // namespace ebb::device::cuda
