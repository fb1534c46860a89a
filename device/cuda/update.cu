// Optimizer updates, fused over a tensor, and the factor that clips gradients by their norm.
#include <algorithm>
#include <vector>

#include "device/cuda/fused_update.h"
#include "device/math/sums.h"

namespace ebb::device::cuda {
namespace {

struct PlainSgd : math::Sgd {
  using Sgd::Sgd;
  static constexpr bool kCostly = false;
  EBB_INLINE void operator()(const Now& now, float& p, float g) const { Plain(now, p, g); }
};
template <bool kNesterov>
struct MomentumSgd : math::Sgd {
  using Sgd::Sgd;
  static constexpr bool kCostly = false;
  EBB_INLINE void operator()(const Now& now, float& p, float g, float& v) const {
    Momentum<kNesterov>(now, p, g, v);
  }
};
struct AdamRule : math::Adam {
  using Adam::Adam;
  static constexpr bool kCostly = true;
};

absl::StatusOr<CudaKernel> MakeSgd(const Graph& graph, const Node& node) {
  if (!HasInput(node, 3)) {
    return FusedUpdate(graph, node, PlainSgd(node.attrs), 4, std::index_sequence<>());
  }
  if (node.attrs.Int("nesterov", 0) != 0) {
    return FusedUpdate(graph, node, MomentumSgd<true>(node.attrs), 4, std::index_sequence<3>());
  }
  return FusedUpdate(graph, node, MomentumSgd<false>(node.attrs), 4, std::index_sequence<3>());
}

absl::StatusOr<CudaKernel> MakeAdam(const Graph& graph, const Node& node) {
  return FusedUpdate(graph, node, AdamRule(node.attrs), 5, std::index_sequence<3, 4>());
}

// ---- ClipFactor: one sum of squares over many tensors. A launch takes a group of them, cut into
// chunks; every thread sums a part of one chunk, and then all parts are added.

constexpr int64_t kLanes = 256;          // threads of a chunk
constexpr int64_t kChunk = 64 * kLanes;  // elements of a chunk
constexpr size_t kGroup = 64;            // tensors of a launch
struct Group {
  size_t first = 0;                 // operand
  int count = 0;                    // tensors
  int64_t parts = 0;                // before those of this group
  int64_t size[kGroup] = {};        // elements of each
  int64_t chunks[kGroup + 1] = {};  // before those of each, and in all
};

struct SquaresOfChunks {
  EBB_INLINE void operator()(int64_t i) const {
    const int64_t chunk = i / kLanes;
    int low = 0, high = group.count - 1;
    while (low < high) {  // the last tensor that begins at or before this chunk
      const int middle = (low + high + 1) / 2;
      if (group.chunks[middle] <= chunk) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    const float* x = tensor[low];
    const int64_t begin = (chunk - group.chunks[low]) * kChunk;
    const int64_t end = begin + kChunk < group.size[low] ? begin + kChunk : group.size[low];
    math::FloatSum sum{0, 0};
    for (int64_t e = begin + i % kLanes; e < end; e += kLanes) sum.Add(x[e] * x[e]);
    parts[group.parts + i] = sum;
  }
  Group group;
  const float* tensor[kGroup];
  math::FloatSum* parts;
};

struct FactorOfParts {
  using Sum = math::FloatSum;
  EBB_INLINE Sum Zero() const { return {0, 0}; }
  EBB_INLINE void Add(Sum& sum, int64_t, int64_t i) const { sum.Join(parts[i]); }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const { sum.Join(other); }
  EBB_INLINE void Done(int64_t, const Sum& sum) const {
    const double factor = max_norm / (std::sqrt(sum.Wide()) + 1e-6);
    *out = static_cast<float>(factor > 1 ? 1 : factor);
  }
  const math::FloatSum* parts;
  double max_norm;
  float* out;
};

std::vector<Group> GroupsOf(const Graph& graph, const Node& node) {
  std::vector<Group> groups;
  int64_t parts = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const int64_t n = NumElements(In(graph, node, i).type.shape);
    if (groups.empty() || groups.back().count == static_cast<int>(kGroup)) {
      groups.emplace_back();
      groups.back().first = i;
      groups.back().parts = parts;
    }
    Group& group = groups.back();
    const int64_t chunks = (n + kChunk - 1) / kChunk;
    group.size[group.count] = n;
    group.chunks[group.count + 1] = group.chunks[group.count] + chunks;
    ++group.count;
    parts += chunks * kLanes;
  }
  return groups;
}

absl::StatusOr<CudaKernel> MakeClipFactor(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  const std::vector<Group> groups = GroupsOf(graph, node);
  const Group& last = groups.back();
  const int64_t parts = last.parts + last.chunks[last.count] * kLanes;
  const double max_norm = node.attrs.Float("max_norm", 0);
  const int64_t part_bytes = parts * static_cast<int64_t>(sizeof(math::FloatSum));
  const auto run = [=](const Launch& at, const KernelArgs& args) -> absl::Status {
    auto* const sums = static_cast<math::FloatSum*>(args.workspace);
    for (const Group& group : groups) {
      SquaresOfChunks squares{group, {}, sums};
      for (int t = 0; t < group.count; ++t) {
        squares.tensor[t] = InPtr<float>(args, group.first + static_cast<size_t>(t));
      }
      EBB_RETURN_IF_ERROR(ForEach(at, group.chunks[group.count] * kLanes, squares));
    }
    return Sums(at, SumsBy::kRows, 1, parts, FactorOfParts{sums, max_norm, OutPtr<float>(args)},
                sums + parts);
  };
  return MakeCudaKernel(run,
                        Bytes(part_bytes) + SumsWorkspace<FactorOfParts>(SumsBy::kRows, 1, parts));
}

constexpr CudaKernelRow kRows[] = {
    {"AdamUpdate", MakeAdam}, {"ClipFactor", MakeClipFactor}, {"SgdUpdate", MakeSgd}};

}  // namespace

absl::Span<const CudaKernelRow> UpdateKernels() { return kRows; }

}  // namespace ebb::device::cuda
