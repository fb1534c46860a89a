// MatMul and Gemm on oneDNN's sgemm, with loops of our own for matrices too small for it.
#include "device/cpu/matmul.h"

#include <algorithm>

#include "device/common/broadcast.h"
#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

GemmSpec SpecOf(const Node& node, const Shape& a, const Shape& b) {
  GemmSpec spec;
  spec.trans_a = node.attrs.Int("trans_a", 0) != 0;
  spec.trans_b = node.attrs.Int("trans_b", 0) != 0;
  const int64_t a_rows = a[a.size() - 2];
  const int64_t a_cols = a[a.size() - 1];
  const int64_t b_rows = b[b.size() - 2];
  const int64_t b_cols = b[b.size() - 1];
  spec.m = spec.trans_a ? a_cols : a_rows;
  spec.k = spec.trans_a ? a_rows : a_cols;
  spec.n = spec.trans_b ? b_rows : b_cols;
  spec.lda = std::max<int64_t>(a_cols, 1);
  spec.ldb = std::max<int64_t>(b_cols, 1);
  spec.ldc = std::max<int64_t>(spec.n, 1);
  spec.threads = OmpThreads();
  return spec;
}

EBB_CLONES void AddScaledRow(const float* b, float scale, float* c, int64_t n) {
  EBB_IVDEP
  for (int64_t j = 0; j < n; ++j) c[j] += scale * b[j];
}

EBB_CLONES float Dot(const float* a, const float* b, int64_t n) {
  return static_cast<float>(BlockedSum(n, [a, b](int64_t i) { return a[i] * b[i]; }));
}

// Rows of b, or dot products when b is transposed.
void SmallGemm(const GemmSpec& s, float alpha, const float* a, const float* b, float beta,
               float* c) {
  const int64_t row = s.trans_a ? 1 : s.lda;
  const int64_t step = s.trans_a ? s.lda : 1;
  for (int64_t i = 0; i < s.m; ++i) {
    float* out = c + i * s.ldc;
    if (beta == 0) {
      std::fill_n(out, s.n, 0.0f);
    } else if (beta != 1) {
      for (int64_t j = 0; j < s.n; ++j) out[j] *= beta;
    }
    if (s.trans_b) {
      for (int64_t j = 0; j < s.n; ++j) {
        float sum = 0;
        if (step == 1) {
          sum = Dot(a + i * row, b + j * s.ldb, s.k);
        } else {
          for (int64_t k = 0; k < s.k; ++k) sum += a[i * row + k * step] * b[j * s.ldb + k];
        }
        out[j] += alpha * sum;
      }
    } else {
      for (int64_t k = 0; k < s.k; ++k) {
        AddScaledRow(b + k * s.ldb, alpha * a[i * row + k * step], out, s.n);
      }
    }
  }
}

// Below this many multiply-adds the set-up of sgemm costs more than the product.
constexpr int64_t kSmall = 512;

}  // namespace

absl::Status Multiply(const GemmSpec& s, float alpha, const float* a, const float* b, float beta,
                      float* c) {
  if (s.m == 0 || s.n == 0) return absl::OkStatus();
  if (s.k == 0 || s.m * s.n * s.k <= kSmall) {
    SmallGemm(s, alpha, a, b, beta, c);
    return absl::OkStatus();
  }
  return Sgemm(s, alpha, a, b, beta, c);
}

namespace {

absl::StatusOr<Kernel> MakeMatMul(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const Shape& a = In(graph, node, 0).type.shape;
  const Shape& b = In(graph, node, 1).type.shape;
  const Shape& y = Out(graph, node).type.shape;
  GemmSpec spec = SpecOf(node, a, b);
  const Shape lead_a(a.begin(), a.end() - 2);
  const Shape lead_b(b.begin(), b.end() - 2);
  const Shape lead_y(y.begin(), y.end() - 2);
  if (NumElements(lead_b) == 1 && !spec.trans_a && NumElements(lead_a) == NumElements(lead_y)) {
    spec.m *= NumElements(lead_y);  // one b for all: the rows of all matrices are one matrix
    return MakeKernel([spec](const KernelArgs& args) {
      return Multiply(spec, 1, InPtr<float>(args, 0), InPtr<float>(args, 1), 0,
                      OutPtr<float>(args));
    });
  }
  EBB_ASSIGN_OR_RETURN(const auto plan, MakeBroadcast<2>(lead_y, {lead_a, lead_b}));
  return MakeKernel([spec, plan](const KernelArgs& args) {
    absl::Status status;
    const int last = plan.rank - 1;
    plan.ForEachRow([&](const std::array<int64_t, 2>& at, int64_t out) {
      for (int64_t i = 0; i < plan.row && status.ok(); ++i) {
        const int64_t ia = at[0] + i * plan.stride[0][last];
        const int64_t ib = at[1] + i * plan.stride[1][last];
        status = Multiply(spec, 1, InPtr<float>(args, 0) + ia * spec.m * spec.k,
                          InPtr<float>(args, 1) + ib * spec.k * spec.n, 0,
                          OutPtr<float>(args) + (out + i) * spec.m * spec.n);
      }
    });
    return status;
  });
}

EBB_CLONES void FillScaled(const float* c, int64_t step, float beta, float* y, int64_t n) {
  EBB_IVDEP
  for (int64_t j = 0; j < n; ++j) y[j] = beta * c[j * step];
}

absl::StatusOr<Kernel> MakeGemm(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  const GemmSpec spec = SpecOf(node, In(graph, node, 0).type.shape, In(graph, node, 1).type.shape);
  const float alpha = static_cast<float>(node.attrs.Float("alpha", 1));
  const float beta = static_cast<float>(node.attrs.Float("beta", 1));
  if (!HasInput(node, 2) || beta == 0) {
    return MakeKernel([spec, alpha](const KernelArgs& args) {
      return Multiply(spec, alpha, InPtr<float>(args, 0), InPtr<float>(args, 1), 0,
                      OutPtr<float>(args));
    });
  }
  EBB_ASSIGN_OR_RETURN(const auto plan, MakeBroadcast<1>(Out(graph, node).type.shape,
                                                         {In(graph, node, 2).type.shape}));
  return MakeKernel([spec, plan, alpha, beta](const KernelArgs& args) {
    float* y = OutPtr<float>(args);
    plan.ForEachRow([&](const std::array<int64_t, 1>& at, int64_t out) {
      FillScaled(InPtr<float>(args, 2) + at[0], plan.stride[0][plan.rank - 1], beta, y + out,
                 plan.row);
    });
    return Multiply(spec, alpha, InPtr<float>(args, 0), InPtr<float>(args, 1), 1, y);
  });
}

constexpr KernelRow kRows[] = {{"Gemm", MakeGemm}, {"MatMul", MakeMatMul}};

}  // namespace

absl::Span<const KernelRow> MatmulKernels() { return kRows; }

}  // namespace ebb::device::cpu
