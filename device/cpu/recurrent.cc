#include "device/cpu/recurrent.h"

#include <algorithm>

namespace ebb::device::cpu {

Recurrence Recurrence::Of(const Graph& graph, const Node& node, absl::string_view gates) {
  return {RecurrenceForm::Of(graph, node, gates), OmpThreads()};
}

void Recurrence::Transpose(const float* r, float* rt) const {
  constexpr int64_t kTile = 16;  // a cache line of floats
  for (int64_t row = 0; row < wide; row += kTile) {
    const int64_t last = std::min(row + kTile, wide);
    for (int64_t column = 0; column < hidden; ++column) {
      for (int64_t i = row; i < last; ++i) rt[column * wide + i] = r[i * hidden + column];
    }
  }
}

absl::Status Recurrence::AddProduct(const float* h, const float* rt, int64_t columns, float* out,
                                    int64_t ld) const {
  if (h == nullptr) return absl::OkStatus();
  const GemmSpec spec{.m = batch,
                      .n = columns,
                      .k = hidden,
                      .lda = hidden,
                      .ldb = wide,
                      .ldc = ld,
                      .threads = threads};
  return Multiply(spec, 1, h, rt, 1, out);
}

absl::Status Recurrence::ProductBack(const float* dgates, const float* r, int64_t rows, int64_t ld,
                                     float beta, float* dh) const {
  const GemmSpec spec{.m = batch,
                      .n = hidden,
                      .k = rows,
                      .lda = ld,
                      .ldb = hidden,
                      .ldc = hidden,
                      .threads = threads};
  return Multiply(spec, 1, dgates, r, beta, dh);
}

absl::Status Recurrence::WeightGrad(const float* dgates, int64_t rows, int64_t ld, const float* y,
                                    const float* h0, float* dr) const {
  // The states before steps 1 to T-1 are neighbours in y: one long product.
  const int64_t later = std::max<int64_t>(steps - 1, 0);
  GemmSpec spec{.trans_a = true,
                .m = rows,
                .n = hidden,
                .k = later * batch,
                .lda = ld,
                .ldb = hidden,
                .ldc = hidden,
                .threads = threads};
  const float* after_first = reverse ? dgates : dgates + batch * ld;
  EBB_RETURN_IF_ERROR(Multiply(spec, 1, after_first, reverse ? y + StateSize() : y, 0, dr));
  if (h0 == nullptr || steps == 0) return absl::OkStatus();
  spec.k = batch;
  return Multiply(spec, 1, dgates + Step(0) * batch * ld, h0, 1, dr);
}

absl::Span<const KernelRow> RecurrentKernels() {
  static const auto* const rows = [] {
    auto* all = new std::vector<KernelRow>();
    for (const auto family : {LstmKernels(), GruKernels()}) {
      all->insert(all->end(), family.begin(), family.end());
    }
    return all;
  }();
  return *rows;
}

}  // namespace ebb::device::cpu
