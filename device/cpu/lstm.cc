// Lstm and its gradient: a product with the state before, then the gates of all units, a step at a
// time.
#include <algorithm>

#include "device/cpu/recurrent.h"
#include "device/cpu/vec.h"
#include "device/math/recurrent.h"

namespace ebb::device::cpu {
namespace {

// One sequence at one step; a row of gates holds i, o, f, c at the places of `at`.
EBB_CLONES void GateRow(float* gates, const int64_t* at, const float* before, float* cell, float* y,
                        int64_t n) {
  float *in = gates + at[0], *out = gates + at[1], *forget = gates + at[2], *cand = gates + at[3];
  EBB_IVDEP
  for (int64_t j = 0; j < n; ++j) {
    const auto unit = math::LstmUnit::Of(in[j], out[j], forget[j], cand[j], before[j]);
    in[j] = unit.i;
    out[j] = unit.o;
    forget[j] = unit.f;
    cand[j] = unit.c;
    cell[j] = unit.cell;
    y[j] = unit.y;
  }
}

struct RowBack {
  const float *gates, *cell, *before, *dy, *dcell;  // of this sequence and step
  const float* dh;                                  // of the step after
  float* dc;                                        // of the step after, then of the one before
  float* dpre;                                      // may be `gates`
};

EBB_CLONES void GateRowBack(const RowBack& row, const int64_t* at, int64_t n) {
  const float *in = row.gates + at[0], *out = row.gates + at[1];
  const float *forget = row.gates + at[2], *cand = row.gates + at[3];
  float *din = row.dpre + at[0], *dout = row.dpre + at[1];
  float *dforget = row.dpre + at[2], *dcand = row.dpre + at[3];
  const float *cell = row.cell, *before = row.before, *dy = row.dy, *dcell = row.dcell;
  const float* dh = row.dh;
  float* dc = row.dc;
  EBB_IVDEP
  for (int64_t j = 0; j < n; ++j) {
    const auto slopes = math::LstmSlopes::Of(in[j], out[j], forget[j], cand[j], cell[j], before[j],
                                             dh[j] + dy[j], dc[j] + dcell[j]);
    dc[j] = slopes.before;
    din[j] = slopes.i;
    dout[j] = slopes.o;
    dforget[j] = slopes.f;
    dcand[j] = slopes.c;
  }
}

// (pre, r, [h0], [c0]) -> y, cells, gates. Workspace: r transposed.
absl::Status Forward(const Recurrence& s, const KernelArgs& args) {
  float *y = OutPtr<float>(args), *cells = OutPtr<float>(args, 1), *gates = OutPtr<float>(args, 2);
  float* rt = static_cast<float*>(args.workspace);
  s.Transpose(InPtr<float>(args, 1), rt);
  for (int64_t k = 0; k < s.steps; ++k) {
    const int64_t t = s.Step(k);
    float* now = gates + t * s.WideSize();
    float* cell = cells + t * s.StateSize();
    std::copy_n(InPtr<float>(args) + t * s.WideSize(), s.WideSize(), now);
    EBB_RETURN_IF_ERROR(
        s.AddProduct(s.Before(y, InPtr<float>(args, 2), k), rt, s.wide, now, s.wide));
    const float* before = s.Before(cells, InPtr<float>(args, 3), k);
    if (before == nullptr) {
      std::fill_n(cell, s.StateSize(), 0.0f);
      before = cell;
    }
    for (int64_t n = 0; n < s.batch; ++n) {
      const int64_t at = n * s.hidden;
      GateRow(now + n * s.wide, s.at, before + at, cell + at, y + t * s.StateSize() + at, s.hidden);
    }
  }
  return absl::OkStatus();
}

// (gates, y, cells, r, [dy], [dcells], [h0], [c0]) -> dpre, dr, dh0, dc0. The last two carry the
// gradients from step to step. Workspace: a row of zeros, for what is absent.
absl::Status Backward(const Recurrence& s, const KernelArgs& args) {
  const float *gates = InPtr<float>(args), *cells = InPtr<float>(args, 2);
  const float *dy = InPtr<float>(args, 4), *dcells = InPtr<float>(args, 5);
  float *dpre = OutPtr<float>(args), *dh = OutPtr<float>(args, 2), *dc = OutPtr<float>(args, 3);
  float* zeros = static_cast<float*>(args.workspace);
  std::fill_n(zeros, s.hidden, 0.0f);
  std::fill_n(dh, s.StateSize(), 0.0f);
  std::fill_n(dc, s.StateSize(), 0.0f);
  for (int64_t k = s.steps; k-- > 0;) {
    const int64_t t = s.Step(k);
    const float* before = s.Before(cells, InPtr<float>(args, 7), k);
    const auto row = [&](const float* states, int64_t n) {
      return states == nullptr ? zeros : states + (t * s.batch + n) * s.hidden;
    };
    for (int64_t n = 0; n < s.batch; ++n) {
      const int64_t wide = (t * s.batch + n) * s.wide, at = n * s.hidden;
      GateRowBack({.gates = gates + wide,
                   .cell = row(cells, n),
                   .before = before == nullptr ? zeros : before + at,
                   .dy = row(dy, n),
                   .dcell = row(dcells, n),
                   .dh = dh + at,
                   .dc = dc + at,
                   .dpre = dpre + wide},
                  s.at, s.hidden);
    }
    EBB_RETURN_IF_ERROR(
        s.ProductBack(dpre + t * s.WideSize(), InPtr<float>(args, 3), s.wide, s.wide, 0, dh));
  }
  return s.WeightGrad(dpre, s.wide, s.wide, InPtr<float>(args, 1), InPtr<float>(args, 6),
                      OutPtr<float>(args, 1));
}

absl::StatusOr<Kernel> MakeLstm(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const Recurrence s = Recurrence::Of(graph, node, "iofc");
  return MakeKernel([s](const KernelArgs& args) { return Forward(s, args); }, s.TransposedSize());
}

absl::StatusOr<Kernel> MakeLstmGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const Recurrence s = Recurrence::Of(graph, node, "iofc");
  return MakeKernel([s](const KernelArgs& args) { return Backward(s, args); },
                    Bytes(s.hidden * static_cast<int64_t>(sizeof(float))));
}

constexpr KernelRow kRows[] = {{"Lstm", MakeLstm}, {"LstmGrad", MakeLstmGrad}};

}  // namespace

absl::Span<const KernelRow> LstmKernels() { return kRows; }

}  // namespace ebb::device::cpu
