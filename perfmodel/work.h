// What a kernel has to do, as the few numbers that its time depends on, whatever op asked for it.
// Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"

namespace ebb::perfmodel {

// Kernels whose times follow one law.
enum class Family : uint8_t {
  kGemm,         // one matrix product: m x k by k x n
  kBatchedGemm,  // `batch` of them
  kConv,  // as products, one a group: m = images x outputs, n = channels out, k = channels in x
          // window
  kConvGradInput,   // m = images x inputs, n = channels in, k = channels out x window
  kConvGradWeight,  // m = channels out, n = channels in x window, k = images x outputs
  kNorm,            // batch, layer, group, RMS: m groups of n elements
  kSoftmax,         // m rows of n elements; cross entropy too
  kDropout,         // m elements, as all below
  kElementwise,
  kPool,
  kReduction,  // m results of n elements each
  kTranspose,
  kConcat,  // and slices, pads
  kGather,  // m rows of n elements from a table of k rows, in `batch` bags
  kGatherGrad,
  kRecurrent,  // `batch` steps of m x k by k x n
  kOptimizer,  // m parameters
  kCopy,       // a copy or a change of type
  kAttention,  // `batch` heads: m queries, n keys, k wide
};
absl::string_view Name(Family family);  // "gemm", "batched_gemm", ...
// Of the op of that name, whatever its operands; Unimplemented names an op that no family covers.
absl::StatusOr<Family> FamilyOf(absl::string_view op);
absl::StatusOr<Family> ParseFamily(absl::string_view name);
// Time goes with multiply-adds, in tiles.
bool IsProduct(Family family);

struct Work {
  Family family = Family::kElementwise;
  graph::DType dtype = graph::DType::kF32;  // of its first floating-point operand
  int64_t batch = 1, m = 1, n = 1, k = 1;   // as above; 1 where a family has no use for it
  int64_t window = 1;                       // elements of a convolution's or pool's window
  int64_t stride = 1;                       // of the same, along the first axis
  double flops = 0;                         // a multiply-add counts two
  double bytes = 0;                         // read and written once
  bool operator==(const Work&) const = default;
};

// Of one node, every shape known. Views (Reshape, Identity) have no work: nullopt-like `bytes` 0
// and `flops` 0. Unimplemented names an op that no family covers.
absl::StatusOr<Work> WorkOf(const graph::Graph& graph, const graph::Node& node);

std::string ToString(const Work& work);  // "gemm f32 32x10x64"

}  // namespace ebb::perfmodel
