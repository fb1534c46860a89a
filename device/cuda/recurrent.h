// The products of a recurrence on a GPU, and what Lstm and Gru share around them. Private to the
// kernels. Every step is a product and a loop over the units; all pointers into a step's rows are
// multiples of `hidden` floats from the start of a tensor.
#pragma once

#include <algorithm>
#include <numeric>

#include "base/status.h"
#include "device/common/recurrence.h"
#include "device/cuda/launch.h"
#include "device/cuda/library.h"

namespace ebb::device::cuda {

using ProductPtr = std::shared_ptr<const Product>;

struct Recurrence : RecurrenceForm {
  explicit Recurrence(const RecurrenceForm& form) : RecurrenceForm(form) {}

  bool Empty() const { return steps == 0 || batch == 0 || hidden == 0; }
  int Alignment() const {
    return static_cast<int>(std::gcd(int64_t{256}, hidden * static_cast<int64_t>(sizeof(float))));
  }

  // out [N, rows] += h [N,H] r' for `rows` rows of r; a row of out is `ld` long.
  absl::StatusOr<ProductPtr> MakeForward(Library& library, int64_t rows, int64_t ld) const {
    return library.MakeProduct({.trans_b = true,
                                .m = batch,
                                .n = rows,
                                .k = hidden,
                                .lda = hidden,
                                .ldb = hidden,
                                .ldc = ld,
                                .alignment = Alignment()});
  }
  // dh [N,H] (+)= dgates [N, rows] r; a row of dgates is `ld` long.
  absl::StatusOr<ProductPtr> MakeBack(Library& library, int64_t rows, int64_t ld) const {
    return library.MakeProduct({.m = batch,
                                .n = hidden,
                                .k = rows,
                                .lda = ld,
                                .ldb = hidden,
                                .ldc = hidden,
                                .alignment = Alignment()});
  }
  // dr [rows,H] (+)= dgates' h over `many` steps.
  absl::StatusOr<ProductPtr> MakeWeight(Library& library, int64_t rows, int64_t ld,
                                        int64_t many) const {
    return library.MakeProduct({.trans_a = true,
                                .m = rows,
                                .n = hidden,
                                .k = many * batch,
                                .lda = ld,
                                .ldb = hidden,
                                .ldc = hidden,
                                .alignment = Alignment()});
  }
};

// dr = the sum over all steps of dgates' h before: the states before steps 1 to T-1 are neighbours
// in y, one long product; those before the first step are h0.
struct WeightGrad {
  ProductPtr later, first;  // null where there are no such steps

  static absl::StatusOr<WeightGrad> Make(Library& library, const Recurrence& s, int64_t rows,
                                         int64_t ld, bool initial) {
    WeightGrad grad;
    if (s.steps > 1) {
      EBB_ASSIGN_OR_RETURN(grad.later, s.MakeWeight(library, rows, ld, s.steps - 1));
    }
    if (initial) {
      EBB_ASSIGN_OR_RETURN(grad.first, s.MakeWeight(library, rows, ld, 1));
    }
    return grad;
  }
  Bytes workspace() const {
    return std::max(later == nullptr ? Bytes(0) : later->workspace(),
                    first == nullptr ? Bytes(0) : first->workspace());
  }
  // dr is zero where there is neither.
  absl::Status Enqueue(const Launch& at, const Recurrence& s, const float* dgates, int64_t ld,
                       const float* y, const float* h0, float* dr, void* workspace) const {
    if (later != nullptr) {
      EBB_RETURN_IF_ERROR(later->Enqueue(at, {.a = s.reverse ? dgates : dgates + s.batch * ld,
                                              .b = s.reverse ? y + s.StateSize() : y,
                                              .c = dr,
                                              .workspace = workspace}));
    }
    if (first == nullptr) return absl::OkStatus();
    return first->Enqueue(at, {.a = dgates + s.Step(0) * s.batch * ld,
                               .b = h0,
                               .c = dr,
                               .beta = later == nullptr ? 0.0f : 1.0f,
                               .workspace = workspace});
  }
  bool Nothing() const { return later == nullptr && first == nullptr; }
};

struct ZeroOut {
  float* to;
  EBB_INLINE void operator()(int64_t i) const { to[i] = 0; }
};
struct CopyOver {
  const float* from;
  float* to;
  EBB_INLINE void operator()(int64_t i) const { to[i] = from[i]; }
};

// All outputs of a node are zero: nothing goes in.
inline CudaKernel ZeroOutputs(const Graph& graph, const Node& node) {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < node.outputs.size(); ++i) sizes.push_back(OutElements(graph, node, i));
  return MakeCudaKernel([sizes](const Launch& at, const KernelArgs& args) -> absl::Status {
    for (size_t i = 0; i < sizes.size(); ++i) {
      EBB_RETURN_IF_ERROR(ForEach(at, sizes[i], ZeroOut{OutPtr<float>(args, i)}));
    }
    return absl::OkStatus();
  });
}

}  // namespace ebb::device::cuda
