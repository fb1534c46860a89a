// Gru and its gradient. With linear_before_reset, as PyTorch has it, the reset gate multiplies the
// product of the state; without it, the state before the product. What it multiplies, or has
// multiplied, is called mixed. The candidate's rows of r are the last in every order of gates.
#include <algorithm>

#include "device/cpu/recurrent.h"
#include "device/cpu/vec.h"
#include "device/math/recurrent.h"

namespace ebb::device::cpu {
namespace {

struct GruForm : Recurrence {
  bool linear_before_reset = true;

  int64_t gate_rows() const { return 2 * hidden; }  // of r, for the gates z and r
  int64_t candidate() const { return at[2]; }
  const float* CandidateRows(const float* r) const { return r + gate_rows() * hidden; }
};

EBB_CLONES void SigmoidRow(const float* bias, float* gate, int64_t n) {
  EBB_IVDEP
  for (int64_t j = 0; j < n; ++j) gate[j] = Sigmoid(gate[j] + bias[j]);
}

EBB_CLONES void MultiplyRow(const float* a, const float* b, float* y, int64_t n) {
  EBB_IVDEP
  for (int64_t j = 0; j < n; ++j) y[j] = a[j] * b[j];
}

EBB_CLONES void AddRow(const float* a, float* y, int64_t n) {
  EBB_IVDEP
  for (int64_t j = 0; j < n; ++j) y[j] += a[j];
}

EBB_CLONES void AddProductRow(const float* a, const float* b, float* y, int64_t n) {
  EBB_IVDEP
  for (int64_t j = 0; j < n; ++j) y[j] += a[j] * b[j];
}

EBB_CLONES void OutputRow(const float* z, const float* before, float* cand, float* y, int64_t n) {
  EBB_IVDEP
  for (int64_t j = 0; j < n; ++j) {
    const auto unit = math::GruUnit::Of(z[j], cand[j], before[j]);
    cand[j] = unit.c;
    y[j] = unit.y;
  }
}

// The operands of a step, all sequences of it.
struct StepForward {
  const float* h;  // the states before; null: zeros
  const float *rt, *bias, *zeros;
  float *gates, *mixed, *y;  // gates hold the projected inputs at first
};

absl::Status ForwardStep(const GruForm& s, const StepForward& step) {
  const int64_t n = s.hidden;
  const auto before = [&](int64_t b) { return step.h == nullptr ? step.zeros : step.h + b * n; };
  const float* candidate_bias = step.bias + s.candidate();
  EBB_RETURN_IF_ERROR(s.AddProduct(step.h, step.rt, s.gate_rows(), step.gates, s.wide));
  for (int64_t b = 0; b < s.batch; ++b) {
    float* gates = step.gates + b * s.wide;
    SigmoidRow(step.bias, gates, s.gate_rows());
    if (s.linear_before_reset) {
      std::copy_n(candidate_bias, n, step.mixed + b * n);
    } else {
      MultiplyRow(gates + s.at[1], before(b), step.mixed + b * n, n);
      AddRow(candidate_bias, gates + s.candidate(), n);
    }
  }
  const float* columns = step.rt + s.candidate();
  if (s.linear_before_reset) {
    EBB_RETURN_IF_ERROR(s.AddProduct(step.h, columns, n, step.mixed, n));
  } else {
    EBB_RETURN_IF_ERROR(s.AddProduct(step.mixed, columns, n, step.gates + s.candidate(), s.wide));
  }
  for (int64_t b = 0; b < s.batch; ++b) {
    float* gates = step.gates + b * s.wide;
    if (s.linear_before_reset) {
      AddProductRow(gates + s.at[1], step.mixed + b * n, gates + s.candidate(), n);
    }
    OutputRow(gates + s.at[0], before(b), gates + s.candidate(), step.y + b * n, n);
  }
  return absl::OkStatus();
}

// (pre, r, [rb], [h0]) -> y, mixed, gates. Workspace: r transposed, then zeros in the place of
// what is absent.
absl::Status Forward(const GruForm& s, const KernelArgs& args) {
  float *y = OutPtr<float>(args), *mixed = OutPtr<float>(args, 1), *gates = OutPtr<float>(args, 2);
  float* rt = static_cast<float*>(args.workspace);
  float* zeros = rt + s.wide * s.hidden;
  s.Transpose(InPtr<float>(args, 1), rt);
  std::fill_n(zeros, s.wide, 0.0f);
  const float* bias = InPtr<float>(args, 2);
  for (int64_t k = 0; k < s.steps; ++k) {
    const int64_t t = s.Step(k);
    float* now = gates + t * s.WideSize();
    std::copy_n(InPtr<float>(args) + t * s.WideSize(), s.WideSize(), now);
    EBB_RETURN_IF_ERROR(ForwardStep(s, {.h = s.Before(y, InPtr<float>(args, 3), k),
                                        .rt = rt,
                                        .bias = bias == nullptr ? zeros : bias,
                                        .zeros = zeros,
                                        .gates = now,
                                        .mixed = mixed + t * s.StateSize(),
                                        .y = y + t * s.StateSize()}));
  }
  return absl::OkStatus();
}

// ---- Backward.

// One sequence at one step: dz, the gradient before tanh, and what goes to the state directly.
struct RowBack {
  const float *z, *cand, *before, *dy;
  float *dz, *dcand, *dh;
};

EBB_CLONES void CandidateRowBack(const RowBack& row, int64_t n) {
  const float *zs = row.z, *cs = row.cand, *before = row.before, *dy = row.dy;
  float *dz = row.dz, *dcand = row.dcand, *dh = row.dh;
  EBB_IVDEP
  for (int64_t j = 0; j < n; ++j) {
    const auto slopes = math::GruSlopes::Of(zs[j], cs[j], before[j], dh[j] + dy[j]);
    dcand[j] = slopes.c;
    dz[j] = slopes.z;
    dh[j] = slopes.before;
  }
}

// Through mixed = r h + rb: `reset` may be `dreset`.
EBB_CLONES void ResetAfterRowBack(const float* dcand, const float* mixed, const float* reset,
                                  float* dreset, float* dmixed, int64_t n) {
  EBB_IVDEP
  for (int64_t j = 0; j < n; ++j) {
    const float r = reset[j], d = dcand[j];
    dmixed[j] = d * r;
    dreset[j] = math::ResetSlope(r, mixed[j], d);
  }
}

// Through mixed = reset gate times h.
EBB_CLONES void ResetBeforeRowBack(const float* dmixed, const float* before, const float* reset,
                                   float* dreset, float* dh, int64_t n) {
  EBB_IVDEP
  for (int64_t j = 0; j < n; ++j) {
    const float r = reset[j], d = dmixed[j];
    dreset[j] = math::ResetSlope(r, before[j], d);
    dh[j] += d * r;
  }
}

void AddToSums(const float* row, double* sums, int64_t n) {
  for (int64_t j = 0; j < n; ++j) sums[j] += static_cast<double>(row[j]);
}

// (gates, y, mixed, r, dy, [h0]) -> dpre, dr, drb, dh0. The last carries the gradient from step to
// step.
struct GruBack {
  GruForm s;

  // Sums over rows, zeros, then the gradients of mixed: of all steps, or of one.
  Bytes workspace() const {
    const int64_t mixed = s.StateSize() * (s.linear_before_reset ? s.steps : 1);
    return Bytes(s.wide * static_cast<int64_t>(sizeof(double)) +
                 (s.hidden + mixed) * static_cast<int64_t>(sizeof(float)));
  }

  absl::Status Step(int64_t k, const KernelArgs& args, const float* zeros, float* dmixed) const {
    const int64_t t = s.Step(k), n = s.hidden;
    const float* gates = InPtr<float>(args) + t * s.WideSize();
    const float* mixed = InPtr<float>(args, 2) + t * s.StateSize();
    const float* r = InPtr<float>(args, 3);
    const float* h = s.Before(InPtr<float>(args, 1), InPtr<float>(args, 5), k);
    float *dpre = OutPtr<float>(args) + t * s.WideSize(), *dh = OutPtr<float>(args, 3);
    const auto before = [&](int64_t b) { return h == nullptr ? zeros : h + b * n; };
    for (int64_t b = 0; b < s.batch; ++b) {
      const float* g = gates + b * s.wide;
      float* d = dpre + b * s.wide;
      CandidateRowBack({.z = g + s.at[0],
                        .cand = g + s.candidate(),
                        .before = before(b),
                        .dy = InPtr<float>(args, 4) + t * s.StateSize() + b * n,
                        .dz = d + s.at[0],
                        .dcand = d + s.candidate(),
                        .dh = dh + b * n},
                       n);
      if (!s.linear_before_reset) continue;
      ResetAfterRowBack(d + s.candidate(), mixed + b * n, g + s.at[1], d + s.at[1], dmixed + b * n,
                        n);
    }
    const float* rows = s.CandidateRows(r);
    if (s.linear_before_reset) {
      EBB_RETURN_IF_ERROR(s.ProductBack(dmixed, rows, n, n, 1, dh));
    } else {
      EBB_RETURN_IF_ERROR(s.ProductBack(dpre + s.candidate(), rows, n, s.wide, 0, dmixed));
      for (int64_t b = 0; b < s.batch; ++b) {
        const int64_t reset = b * s.wide + s.at[1];
        ResetBeforeRowBack(dmixed + b * n, before(b), gates + reset, dpre + reset, dh + b * n, n);
      }
    }
    return s.ProductBack(dpre, r, s.gate_rows(), s.wide, 1, dh);
  }

  // dr and drb out of the gradients of all steps.
  absl::Status Weights(const KernelArgs& args, const float* dmixed, double* sums) const {
    const int64_t n = s.hidden, rows = s.steps * s.batch;
    const float *y = InPtr<float>(args, 1), *h0 = InPtr<float>(args, 5);
    const float* dpre = OutPtr<float>(args);
    float* dr = OutPtr<float>(args, 1);
    float* dcandidate = dr + s.gate_rows() * n;
    EBB_RETURN_IF_ERROR(s.WeightGrad(dpre, s.gate_rows(), s.wide, y, h0, dr));
    if (s.linear_before_reset) {
      EBB_RETURN_IF_ERROR(s.WeightGrad(dmixed, n, n, y, h0, dcandidate));
    } else {
      const GemmSpec spec{.trans_a = true,
                          .m = n,
                          .n = n,
                          .k = rows,
                          .lda = s.wide,
                          .ldb = n,
                          .ldc = n,
                          .threads = s.threads};
      EBB_RETURN_IF_ERROR(
          Multiply(spec, 1, dpre + s.candidate(), InPtr<float>(args, 2), 0, dcandidate));
    }
    std::fill_n(sums, s.wide, 0.0);
    for (int64_t i = 0; i < rows; ++i) {
      AddToSums(dpre + i * s.wide, sums, s.gate_rows());
      AddToSums(s.linear_before_reset ? dmixed + i * n : dpre + i * s.wide + s.candidate(),
                sums + s.candidate(), n);
    }
    for (int64_t j = 0; j < s.wide; ++j) OutPtr<float>(args, 2)[j] = static_cast<float>(sums[j]);
    return absl::OkStatus();
  }

  absl::Status operator()(const KernelArgs& args) const {
    double* sums = static_cast<double*>(args.workspace);
    float* zeros = reinterpret_cast<float*>(sums + s.wide);
    float* dmixed = zeros + s.hidden;
    std::fill_n(zeros, s.hidden, 0.0f);
    std::fill_n(OutPtr<float>(args, 3), s.StateSize(), 0.0f);
    for (int64_t k = s.steps; k-- > 0;) {
      const int64_t offset = s.linear_before_reset ? s.Step(k) * s.StateSize() : 0;
      EBB_RETURN_IF_ERROR(Step(k, args, zeros, dmixed + offset));
    }
    return Weights(args, dmixed, sums);
  }
};

GruForm FormOf(const Graph& graph, const Node& node) {
  return {Recurrence::Of(graph, node, "zrh"), node.attrs.Int("linear_before_reset", 1) != 0};
}

absl::StatusOr<Kernel> MakeGru(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const GruForm s = FormOf(graph, node);
  return MakeKernel([s](const KernelArgs& args) { return Forward(s, args); },
                    s.TransposedSize() + Bytes(s.wide * static_cast<int64_t>(sizeof(float))));
}

absl::StatusOr<Kernel> MakeGruGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const GruBack back{FormOf(graph, node)};
  return MakeKernel(back, back.workspace());
}

constexpr KernelRow kRows[] = {{"Gru", MakeGru}, {"GruGrad", MakeGruGrad}};

}  // namespace

absl::Span<const KernelRow> GruKernels() { return kRows; }

}  // namespace ebb::device::cpu
