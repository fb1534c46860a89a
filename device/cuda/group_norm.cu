// Group normalisation: a sample's group is one row of contiguous elements, with a scale and a bias
// a channel.
#include <cmath>

#include "base/status.h"
#include "device/common/norm_rows.h"
#include "device/cuda/lines.h"
#include "device/cuda/norm_row.h"

namespace ebb::device::cuda {
namespace {

struct Normalize : RowMoments {
  EBB_INLINE void Each(int64_t row, int64_t i, const Sum& sum) const {
    const int64_t c = row % form.groups * form.channels + i / form.positions;
    y[row * size + i] = Normal(row, i, sum) * scale[c] + bias[c];
  }
  GroupForm form;
  const float* scale;
  const float* bias;
  float* y;
};

absl::StatusOr<CudaKernel> MakeGroupNorm(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const GroupForm form = GroupFormOf(node, In(graph, node).type.shape);
  const auto epsilon = static_cast<float>(node.attrs.Float("epsilon", 1e-5));
  return MakeCudaKernel([form, epsilon](const Launch& at, const KernelArgs& args) {
    return Lines(at, SumsBy::kRows, form.samples * form.groups, form.size(),
                 Normalize{{form.size(), epsilon, InPtr<float>(args, 0), OutPtr<float>(args, 1),
                            OutPtr<float>(args, 2)},
                           form,
                           InPtr<float>(args, 1),
                           InPtr<float>(args, 2),
                           OutPtr<float>(args, 0)});
  });
}

// ---- The gradient. With h = (x - mean) inverse and g = dy scale: the sums of dy and dy h of every
// sample's channel first. Over samples they are dbias and dscale; over the channels of a group and
// times the scales they give
// dx = inverse (g - mean(g) - h mean(g h)).

struct PairOfSums {
  float sum, dot;
};

struct ChannelSums : SumAndDot {
  static constexpr bool kEach = false;
  EBB_INLINE void Add(Sum& sum, int64_t row, int64_t i) const {
    const int64_t group = row / form.channels;
    const float d = dy[row * form.positions + i];
    sum.sum.Add(d);
    sum.dot.Add(d * ((x[row * form.positions + i] - mean[group]) * inverse[group]));
  }
  EBB_INLINE void Done(int64_t row, const Sum& sum) const {
    out[row] = {sum.sum.Total(), sum.dot.Total()};
  }
  GroupForm form;
  const float* dy;
  const float* x;
  const float* mean;
  const float* inverse;
  PairOfSums* out;
};

struct WeightGradients : SumAndDot {
  EBB_INLINE void Add(Sum& sum, int64_t c, int64_t sample) const {
    const PairOfSums pair = sums[sample * all_channels + c];
    sum.sum.Add(pair.sum);
    sum.dot.Add(pair.dot);
  }
  EBB_INLINE void Done(int64_t c, const Sum& sum) const {
    dscale[c] = sum.dot.Total();
    dbias[c] = sum.sum.Total();
  }
  int64_t all_channels;
  const PairOfSums* sums;
  float* dscale;
  float* dbias;
};

struct GroupMeans {
  EBB_INLINE void operator()(int64_t row) const {
    const int64_t first = row % form.groups * form.channels;
    math::FloatSum sum{0, 0}, dot{0, 0};
    for (int64_t c = 0; c < form.channels; ++c) {
      const PairOfSums pair = sums[row * form.channels + c];
      sum.Add(pair.sum * scale[first + c]);
      dot.Add(pair.dot * scale[first + c]);
    }
    const auto size = static_cast<float>(form.channels * form.positions);
    means[row] = {sum.Total() / size, dot.Total() / size};
  }
  GroupForm form;
  const PairOfSums* sums;
  const float* scale;
  PairOfSums* means;
};

// A cell of [samples channels][positions].
struct InputGradient {
  EBB_INLINE void operator()(int64_t row, int64_t i) const {
    const int64_t group = row / form.channels;
    const int64_t c = row - group / form.groups * form.all_channels();
    const PairOfSums mean_of = means[group];
    const int64_t at = row * form.positions + i;
    const float h = (x[at] - mean[group]) * inverse[group];
    dx[at] = inverse[group] * ((dy[at] * scale[c] - mean_of.sum) - h * mean_of.dot);
  }
  GroupForm form;
  const float* dy;
  const float* x;
  const float* scale;
  const float* mean;
  const float* inverse;
  const PairOfSums* means;
  float* dx;
};

absl::StatusOr<CudaKernel> MakeGradient(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const GroupForm form = GroupFormOf(node, In(graph, node, 1).type.shape);
  const int64_t rows = form.samples * form.all_channels();
  const auto run = [form, rows](const Launch& at, const KernelArgs& args) -> absl::Status {
    const float* dy = InPtr<float>(args, 0);
    const float* x = InPtr<float>(args, 1);
    const float* scale = InPtr<float>(args, 2);
    const float* mean = InPtr<float>(args, 3);
    const float* inverse = InPtr<float>(args, 4);
    auto* const sums = static_cast<PairOfSums*>(args.workspace);
    PairOfSums* const means = sums + rows;
    EBB_RETURN_IF_ERROR(Lines(at, SumsBy::kRows, rows, form.positions,
                              ChannelSums{{}, form, dy, x, mean, inverse, sums}));
    EBB_RETURN_IF_ERROR(
        Sums(at, SumsBy::kColumns, form.all_channels(), form.samples,
             WeightGradients{
                 {}, form.all_channels(), sums, OutPtr<float>(args, 1), OutPtr<float>(args, 2)},
             means + form.samples * form.groups));
    EBB_RETURN_IF_ERROR(
        ForEach(at, form.samples * form.groups, GroupMeans{form, sums, scale, means}));
    return Cells(at, rows, form.positions,
                 InputGradient{form, dy, x, scale, mean, inverse, means, OutPtr<float>(args)});
  };
  const int64_t pairs = rows + form.samples * form.groups;
  return MakeCudaKernel(
      run, Bytes(pairs * static_cast<int64_t>(sizeof(PairOfSums))) +
               SumsWorkspace<WeightGradients>(SumsBy::kColumns, form.all_channels(), form.samples));
}

constexpr CudaKernelRow kRows[] = {{"GroupNorm", MakeGroupNorm}, {"GroupNormGrad", MakeGradient}};

}  // namespace

absl::Span<const CudaKernelRow> GroupNormKernels() { return kRows; }

}  // namespace ebb::device::cuda
