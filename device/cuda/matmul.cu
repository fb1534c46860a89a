// MatMul and Gemm: shapes and broadcasting here, the products in the library.
#include <numeric>

#include "base/status.h"
#include "device/common/broadcast.h"
#include "device/common/half.h"
#include "device/cuda/fill.h"
#include "device/cuda/launch.h"
#include "device/cuda/library.h"

namespace ebb::device::cuda {
namespace {

ProductSpec SpecOf(const Graph& graph, const Node& node) {
  const Shape& a = In(graph, node, 0).type.shape;
  const Shape& b = In(graph, node, 1).type.shape;
  ProductSpec spec;
  spec.precision = PrecisionOf(graph, node);
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

CudaKernel MakeZero(int64_t bytes) {
  return MakeCudaKernel([n = bytes / 2](const Launch& at, const KernelArgs& args) {
    return Fill(at, OutPtr<uint16_t>(args), n, uint16_t{0});
  });
}

// The largest power of two, up to 256, that divides every distance in bytes.
int AlignmentOf(std::initializer_list<int64_t> distances) {
  int64_t bytes = 256;
  for (const int64_t distance : distances) bytes = std::gcd(bytes, distance);
  return static_cast<int>(bytes);
}

absl::StatusOr<CudaKernel> MakeMatMul(Library& library, const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const Shape& a = In(graph, node, 0).type.shape;
  const Shape& b = In(graph, node, 1).type.shape;
  const Shape& y = Out(graph, node).type.shape;
  ProductSpec spec = SpecOf(graph, node);
  if (NumElements(y) == 0 || spec.k == 0) return MakeZero(Out(graph, node).type.bytes().count());
  const Shape lead_a(a.begin(), a.end() - 2), lead_b(b.begin(), b.end() - 2);
  const Shape lead_y(y.begin(), y.end() - 2);
  if (NumElements(lead_b) == 1 && !spec.trans_a && NumElements(lead_a) == NumElements(lead_y)) {
    spec.m *= NumElements(lead_y);  // one b for all: the rows of all matrices are one matrix
    EBB_ASSIGN_OR_RETURN(const std::shared_ptr<const Product> product, library.MakeProduct(spec));
    return MakeCudaKernel(
        [product](const Launch& at, const KernelArgs& args) {
          return product->Enqueue(
              at,
              {.a = args.in[0], .b = args.in[1], .c = args.out[0], .workspace = args.workspace});
        },
        product->workspace());
  }
  // Rows of matrices at equal distances, one call a row.
  EBB_ASSIGN_OR_RETURN(const auto plan, MakeBroadcast<2>(lead_y, {lead_a, lead_b}));
  spec.stride_c = spec.m * spec.n;
  const int64_t element = SizeOf(spec.precision);
  const int64_t size_a = spec.m * spec.k * element, size_b = spec.k * spec.n * element;
  const int64_t size_y = spec.stride_c * element;
  spec.batch = plan.row;
  spec.stride_a = plan.stride[0][plan.rank - 1] * spec.m * spec.k;
  spec.stride_b = plan.stride[1][plan.rank - 1] * spec.k * spec.n;
  if (plan.rows > 1) spec.alignment = AlignmentOf({size_a, size_b, size_y});
  EBB_ASSIGN_OR_RETURN(const std::shared_ptr<const Product> product, library.MakeProduct(spec));
  return MakeCudaKernel(
      [product, plan, size_a, size_b, size_y](const Launch& at, const KernelArgs& args) {
        absl::Status status;
        plan.ForEachRow([&](const std::array<int64_t, 2>& offset, int64_t out) {
          if (!status.ok()) return;
          status.Update(product->Enqueue(at, {.a = InPtr<char>(args, 0) + offset[0] * size_a,
                                              .b = InPtr<char>(args, 1) + offset[1] * size_b,
                                              .c = OutPtr<char>(args) + out * size_y,
                                              .workspace = args.workspace}));
        });
        return status;
      },
      product->workspace());
}

// y [m,n] = beta times c, which may be repeated along either axis.
struct Repeat {
  float beta = 1;
  int64_t columns = 1, row_step = 0, column_step = 0;
};
template <class T>
struct FillScaled {
  const T* c;
  T* y;
  Repeat repeat;
  EBB_INLINE void operator()(int64_t i) const {
    const int64_t row = i / repeat.columns, column = i % repeat.columns;
    const T value = c[row * repeat.row_step + column * repeat.column_step];
    Narrow(repeat.beta * Widen(value), y + i);
  }
};
absl::Status EnqueueFill(const Launch& at, Precision precision, const Repeat& repeat,
                         const KernelArgs& args, int64_t n) {
  const auto fill = [&](auto zero) {
    using T = decltype(zero);
    return ForEach(at, n, FillScaled<T>{InPtr<T>(args, 2), OutPtr<T>(args), repeat});
  };
  if (precision == Precision::kBf16) return fill(Bf16());
  return precision == Precision::kF16 ? fill(F16()) : fill(float());
}

absl::StatusOr<CudaKernel> MakeGemm(Library& library, const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  ProductSpec spec = SpecOf(graph, node);
  const auto alpha = static_cast<float>(node.attrs.Float("alpha", 1));
  const auto beta = static_cast<float>(node.attrs.Float("beta", 1));
  const int64_t n = OutElements(graph, node);
  const bool adds = HasInput(node, 2) && beta != 0;
  if (n == 0 || (spec.k == 0 && !adds)) return MakeZero(Out(graph, node).type.bytes().count());
  // Where there is a product, c is repeated as it is, and scaled in the product's own sum.
  Repeat repeat = {.beta = spec.k > 0 ? 1.0f : beta, .columns = spec.n};
  if (adds) {
    Shape c = In(graph, node, 2).type.shape;
    while (c.size() < 2) c.insert(c.begin(), 1);
    repeat.row_step = c[0] == 1 ? 0 : c[1];
    repeat.column_step = c[1] == 1 ? 0 : 1;
  }
  std::shared_ptr<const Product> product;
  spec.bias = adds && beta == 1 && repeat.row_step == 0 && repeat.column_step == 1 && spec.k > 0;
  if (spec.k > 0) {
    EBB_ASSIGN_OR_RETURN(product, library.MakeProduct(spec));
  }
  const bool fills = adds && !spec.bias;
  return MakeCudaKernel(
      [product, repeat, alpha, beta, fills, n, precision = spec.precision](
          const Launch& at, const KernelArgs& args) -> absl::Status {
        if (fills) EBB_RETURN_IF_ERROR(EnqueueFill(at, precision, repeat, args, n));
        if (product == nullptr) return absl::OkStatus();
        return product->Enqueue(at, {.a = args.in[0],
                                     .b = args.in[1],
                                     .bias = InPtr<void>(args, 2),
                                     .c = args.out[0],
                                     .alpha = alpha,
                                     .beta = fills ? beta : 0.0f,
                                     .workspace = args.workspace});
      },
      product == nullptr ? Bytes(0) : product->workspace());
}

constexpr LibraryKernelRow kRows[] = {{"Gemm", MakeGemm}, {"MatMul", MakeMatMul}};

}  // namespace

absl::Span<const LibraryKernelRow> MatmulKernels() { return kRows; }

}  // namespace ebb::device::cuda
