// What Lstm and Gru share: the products between the steps of a recurrence. Private to the kernels.
#pragma once

#include "absl/status/status.h"
#include "device/common/recurrence.h"
#include "device/cpu/common.h"
#include "device/cpu/matmul.h"

namespace ebb::device::cpu {

struct Recurrence : RecurrenceForm {
  int threads = 1;

  static Recurrence Of(const Graph& graph, const Node& node, absl::string_view gates);

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
