// What Lstm and Gru share: the sizes of a recurrence, its steps in the order in which they are
// computed, and the products between them. Private to the kernels.
#pragma once

#include "absl/status/status.h"
#include "device/cpu/common.h"
#include "device/cpu/matmul.h"

namespace ebb::device::cpu {

// T steps of N sequences, H hidden units. Gates are blocks of H of a row of `wide` = G H.
struct Recurrence {
  int64_t steps = 0, batch = 0, hidden = 0, wide = 0;
  bool reverse = false;
  int64_t at[4] = {};  // where in a row the gates i, o, f, c (or z, r, h) begin
  int threads = 1;

  // `gates` names the gates, a letter each; input 0 of the node is [T,N,G H].
  static Recurrence Of(const Graph& graph, const Node& node, absl::string_view gates);

  int64_t Step(int64_t k) const { return reverse ? steps - 1 - k : k; }  // the k-th computed
  int64_t StateSize() const { return batch * hidden; }
  int64_t WideSize() const { return batch * wide; }
  // The states before the k-th step: those of the step before, or `initial`, which may be null.
  const float* Before(const float* states, const float* initial, int64_t k) const {
    return k > 0 ? states + Step(k - 1) * StateSize() : initial;
  }

  // r^T [H, G H] of r [G H, H]: every step multiplies by it, and a product with a plain matrix
  // takes half the time of one with a transposed.
  void Transpose(const float* r, float* rt) const;
  Bytes TransposedSize() const {
    return Bytes(wide * hidden * static_cast<int64_t>(sizeof(float)));
  }
  // out [N, columns] += h [N,H] rt, for `columns` columns of rt from where it points; a row of out
  // is `ld` long. Nothing if h is null.
  absl::Status AddProduct(const float* h, const float* rt, int64_t columns, float* out,
                          int64_t ld) const;
  // dh [N,H] = beta dh + dgates [N, rows] r; a row of dgates is `ld` long.
  absl::Status ProductBack(const float* dgates, const float* r, int64_t rows, int64_t ld,
                           float beta, float* dh) const;
  // dr [rows,H] = the sum over all steps of dgates^T h before; a row of dgates is `ld` long.
  absl::Status WeightGrad(const float* dgates, int64_t rows, int64_t ld, const float* y,
                          const float* h0, float* dr) const;
};

// The recurrences of the two ops; each in its file.
absl::Span<const KernelRow> LstmKernels();
absl::Span<const KernelRow> GruKernels();

}  // namespace ebb::device::cpu
