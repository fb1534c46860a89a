// MatMul and Gemm: shapes and broadcasting here, the products in the library.
#include <numeric>

#include "base/status.h"
#include "device/common/broadcast.h"
#include "device/cuda/launch.h"
#include "device/cuda/library.h"

namespace ebb::device::cuda {
namespace {

ProductSpec SpecOf(const Node& node, const Shape& a, const Shape& b) {
  ProductSpec spec;
  spec.trans_a = node.attrs.Int("trans_a", 0) != 0;
  spec.trans_b = node.attrs.Int("trans_b", 0) != 0;
  const int64_t a_rows = a[a.size() - 2], a_cols = a[a.size() - 1];
  const int64_t b_rows = b[b.size() - 2], b_cols = b[b.size() - 1];
  spec.m = spec.trans_a ? a_cols : a_rows;
  spec.k = spec.trans_a ? a_rows : a_cols;
  spec.n = spec.trans_b ? b_rows : b_cols;
  spec.lda = a_cols;
  spec.ldb = b_cols;
  spec.ldc = spec.n;
  return spec;
}

struct Zero {
  float* to;
  EBB_INLINE void operator()(int64_t i) const { to[i] = 0; }
};
CudaKernel MakeZero(int64_t n) {
  return MakeCudaKernel([n](const Launch& at, const KernelArgs& args) {
    return ForEach(at, n, Zero{OutPtr<float>(args)});
  });
}

// The largest power of two, up to 256, that divides every distance in bytes.
int AlignmentOf(std::initializer_list<int64_t> elements) {
  int64_t bytes = 256;
  for (const int64_t n : elements) {
    bytes = std::gcd(bytes, n * static_cast<int64_t>(sizeof(float)));
  }
  return static_cast<int>(bytes);
}

absl::StatusOr<CudaKernel> MakeMatMul(Library& library, const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const Shape& a = In(graph, node, 0).type.shape;
  const Shape& b = In(graph, node, 1).type.shape;
  const Shape& y = Out(graph, node).type.shape;
  ProductSpec spec = SpecOf(node, a, b);
  if (NumElements(y) == 0 || spec.k == 0) return MakeZero(NumElements(y));
  const Shape lead_a(a.begin(), a.end() - 2), lead_b(b.begin(), b.end() - 2);
  const Shape lead_y(y.begin(), y.end() - 2);
  if (NumElements(lead_b) == 1 && !spec.trans_a && NumElements(lead_a) == NumElements(lead_y)) {
    spec.m *= NumElements(lead_y);  // one b for all: the rows of all matrices are one matrix
    EBB_ASSIGN_OR_RETURN(const std::shared_ptr<const Product> product, library.MakeProduct(spec));
    return MakeCudaKernel(
        [product](const Launch& at, const KernelArgs& args) {
          return product->Enqueue(at, {.a = InPtr<float>(args, 0),
                                       .b = InPtr<float>(args, 1),
                                       .c = OutPtr<float>(args),
                                       .workspace = args.workspace});
        },
        product->workspace());
  }
  // Rows of matrices at equal distances, one call a row.
  EBB_ASSIGN_OR_RETURN(const auto plan, MakeBroadcast<2>(lead_y, {lead_a, lead_b}));
  const int64_t size_a = spec.m * spec.k, size_b = spec.k * spec.n, size_y = spec.m * spec.n;
  spec.batch = plan.row;
  spec.stride_a = plan.stride[0][plan.rank - 1] * size_a;
  spec.stride_b = plan.stride[1][plan.rank - 1] * size_b;
  spec.stride_c = size_y;
  if (plan.rows > 1) spec.alignment = AlignmentOf({size_a, size_b, size_y});
  EBB_ASSIGN_OR_RETURN(const std::shared_ptr<const Product> product, library.MakeProduct(spec));
  return MakeCudaKernel(
      [product, plan, size_a, size_b, size_y](const Launch& at, const KernelArgs& args) {
        absl::Status status;
        plan.ForEachRow([&](const std::array<int64_t, 2>& offset, int64_t out) {
          if (!status.ok()) return;
          status.Update(product->Enqueue(at, {.a = InPtr<float>(args, 0) + offset[0] * size_a,
                                              .b = InPtr<float>(args, 1) + offset[1] * size_b,
                                              .c = OutPtr<float>(args) + out * size_y,
                                              .workspace = args.workspace}));
        });
        return status;
      },
      product->workspace());
}

// y [m,n] = beta times c, which may be repeated along either axis.
struct FillScaled {
  const float* c;
  float* y;
  float beta;
  int64_t columns, row_step, column_step;
  EBB_INLINE void operator()(int64_t i) const {
    y[i] = beta * c[i / columns * row_step + i % columns * column_step];
  }
};

absl::StatusOr<CudaKernel> MakeGemm(Library& library, const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  ProductSpec spec = SpecOf(node, In(graph, node, 0).type.shape, In(graph, node, 1).type.shape);
  const auto alpha = static_cast<float>(node.attrs.Float("alpha", 1));
  const auto beta = static_cast<float>(node.attrs.Float("beta", 1));
  const int64_t n = OutElements(graph, node);
  const bool adds = HasInput(node, 2) && beta != 0;
  if (n == 0 || (spec.k == 0 && !adds)) return MakeZero(n);
  FillScaled fill = {.beta = beta, .columns = spec.n};
  if (adds) {
    Shape c = In(graph, node, 2).type.shape;
    while (c.size() < 2) c.insert(c.begin(), 1);
    fill.row_step = c[0] == 1 ? 0 : c[1];
    fill.column_step = c[1] == 1 ? 0 : 1;
  }
  std::shared_ptr<const Product> product;
  spec.bias = adds && beta == 1 && fill.row_step == 0 && fill.column_step == 1 && spec.k > 0;
  if (spec.k > 0) {
    EBB_ASSIGN_OR_RETURN(product, library.MakeProduct(spec));
  }
  const bool fills = adds && !spec.bias;
  return MakeCudaKernel(
      [product, fill, alpha, fills, n](const Launch& at, const KernelArgs& args) -> absl::Status {
        const auto* const c = InPtr<float>(args, 2);
        if (fills) {
          FillScaled now = fill;
          now.c = c;
          now.y = OutPtr<float>(args);
          EBB_RETURN_IF_ERROR(ForEach(at, n, now));
        }
        if (product == nullptr) return absl::OkStatus();
        return product->Enqueue(at, {.a = InPtr<float>(args, 0),
                                     .b = InPtr<float>(args, 1),
                                     .bias = c,
                                     .c = OutPtr<float>(args),
                                     .alpha = alpha,
                                     .beta = fills ? 1.0f : 0.0f,
                                     .workspace = args.workspace});
      },
      product == nullptr ? Bytes(0) : product->workspace());
}

constexpr LibraryKernelRow kRows[] = {{"Gemm", MakeGemm}, {"MatMul", MakeMatMul}};

}  // namespace

absl::Span<const LibraryKernelRow> MatmulKernels() { return kRows; }

}  // namespace ebb::device::cuda
