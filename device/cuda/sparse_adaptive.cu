// Row-wise Adagrad of the rows of a table that were looked up, from the gradient of what the
// look-ups gave: that of the whole table is never made.
#include <algorithm>

#include "base/status.h"
#include "device/cuda/bags.h"
#include "device/cuda/lines.h"
#include "device/cuda/segments.h"
#include "device/math/update.h"

namespace ebb::device::cuda {
namespace {

// Rows that were looked up are known by where they begin among the sorted look-ups.
struct Touched {
  // Row i of them, or -1 where none begins at i.
  EBB_INLINE int64_t RowAt(int64_t i) const {
    const int64_t row = keys[i].row();
    const bool begins = row < rows && (i == 0 || keys[i - 1].row() != row);
    return begins ? row : -1;
  }
  EBB_INLINE int64_t BeginOf(int64_t row) const {
    const uint64_t key = static_cast<uint64_t>(row) << 32;
    int64_t low = 0;
    int64_t high = count;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (keys[middle].bits < key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
  const SortKey* keys;
  int64_t rows, count;
};

// The gradients of rows, each at the row's begin.
struct GradientsOfRows {
  EBB_INLINE float Value(int64_t i, int64_t column) const {
    if (bag_of == nullptr) return dy[i * width + column];
    return ranges[bag_of[i]].scale * dy[bag_of[i] * width + column];
  }
  EBB_INLINE void Done(int64_t row, int64_t column, float sum) const {
    gradient[touched.BeginOf(row) * width + column] = sum;
  }
  Touched touched;
  int64_t width;
  const float* dy;
  const BagRange* ranges;
  const int32_t* bag_of;  // nullptr without bags
  float* gradient;
};

struct RowSteps {
  struct Sum {
    float squares;
  };
  static constexpr bool kEach = false;
  EBB_INLINE Sum Zero() const { return {0}; }
  EBB_INLINE void Add(Sum& sum, int64_t i, int64_t column) const {
    const int64_t row = touched.RowAt(i);
    if (row < 0) return;
    const float d = rule.Gradient(param[row * width + column], gradient[i * width + column]);
    sum.squares += d * d;
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const { sum.squares += other.squares; }
  EBB_INLINE void Done(int64_t i, const Sum& sum) const {
    const int64_t row = touched.RowAt(i);
    if (row < 0) return;
    sums[row] += sum.squares / static_cast<float>(width);
    steps[i] = rule.Step(rule.Rate(hyper), sums[row]);
  }
  math::RowwiseAdagrad rule;
  Touched touched;
  int64_t width;
  const float* param;
  const float* gradient;
  const double* hyper;
  float* sums;
  float* steps;
};

struct UpdateRows {
  EBB_INLINE void operator()(int64_t i, int64_t column) const {
    const int64_t row = touched.RowAt(i);
    if (row < 0) return;
    float& p = param[row * width + column];
    p -= steps[i] * rule.Gradient(p, gradient[i * width + column]);
  }
  math::RowwiseAdagrad rule;
  Touched touched;
  int64_t width;
  float* param;
  const float* gradient;
  const float* steps;
};

// The workspace: what the sums need, gradients, steps, and what is known of bags.
struct Workspace {
  explicit Workspace(const Bags& table)
      : sums((SegmentSumsWorkspace(table.indices, table.width).count() + 15) / 16 * 16),
        gradients(table.indices * table.width),
        steps(table.indices) {}
  int64_t end() const { return sums + (gradients + steps) * static_cast<int64_t>(sizeof(float)); }
  float* Gradients(void* base) const {
    return reinterpret_cast<float*>(static_cast<char*>(base) + sums);
  }
  float* Steps(void* base) const { return Gradients(base) + gradients; }
  void* End(void* base) const { return static_cast<char*>(base) + end(); }

  int64_t sums, gradients, steps;
};

// (param, dy, hyper, sum, indices, [offsets])
template <class I>
absl::Status Update(const Launch& at, const Bags& table, const math::RowwiseAdagrad& rule,
                    const KernelArgs& args) {
  if (table.width == 0 || table.indices == 0) return absl::OkStatus();
  const Workspace workspace(table);
  FoundBags found(table, workspace.End(args.workspace));
  const I* offsets = InPtr<I>(args, 5);
  if (offsets == nullptr) {
    found.bag_of = nullptr;
  } else {
    EBB_RETURN_IF_ERROR(FindBags(at, table, offsets, found));
  }
  const SortKey* sorted = nullptr;
  EBB_RETURN_IF_ERROR(SortByRow(at, table.rows, table.indices,
                                RowOfBagged<I>{InPtr<I>(args, 4), found.bag_of, table.rows},
                                args.workspace, &sorted));
  const Touched touched{sorted, table.rows, table.indices};
  float* const gradient = workspace.Gradients(args.workspace);
  float* const steps = workspace.Steps(args.workspace);
  float* const param = MutablePtr<float>(args, 0);
  const GradientsOfRows gradients{touched,      table.width,  InPtr<float>(args, 1),
                                  found.ranges, found.bag_of, gradient};
  EBB_RETURN_IF_ERROR(
      SumsOfSorted(at, table.rows, table.indices, table.width, sorted, gradients, args.workspace));
  EBB_RETURN_IF_ERROR(Lines(at, SumsBy::kRows, table.indices, table.width,
                            RowSteps{rule, touched, table.width, param, gradient,
                                     InPtr<double>(args, 2), MutablePtr<float>(args, 3), steps}));
  return Cells(at, table.indices, table.width,
               UpdateRows{rule, touched, table.width, param, gradient, steps});
}

absl::StatusOr<CudaKernel> MakeSparseRowwiseAdagrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const TensorType& param = In(graph, node, 0).type;
  if (param.dtype != DType::kF32) return BadType(node, param.dtype);
  const TensorType& indices = In(graph, node, 4).type;
  const bool in_bags = HasInput(node, 5);
  Bags table;
  table.rows = param.shape[0];
  table.width = NumElements(param.shape) / std::max<int64_t>(table.rows, 1);
  table.indices = NumElements(indices.shape);
  table.bags = in_bags ? In(graph, node, 1).type.shape[0] : 0;
  table.mean = node.attrs.Str("mode", "sum") == "mean";
  table.last_offset = node.attrs.Int("include_last_offset", 0) != 0;
  EBB_RETURN_IF_ERROR(CheckSortable(node, table.rows, std::max(table.indices, table.bags)));
  const math::RowwiseAdagrad rule(node.attrs);
  const bool narrow = indices.dtype == DType::kI32;
  return MakeCudaKernel(
      [=](const Launch& at, const KernelArgs& args) {
        return narrow ? Update<int32_t>(at, table, rule, args)
                      : Update<int64_t>(at, table, rule, args);
      },
      Bytes(Workspace(table).end()) + FoundBags::Size(table));
}

constexpr CudaKernelRow kRows[] = {{"SparseRowwiseAdagradUpdate", MakeSparseRowwiseAdagrad}};

}  // namespace

absl::Span<const CudaKernelRow> SparseAdaptiveKernels() { return kRows; }

}  // namespace ebb::device::cuda
