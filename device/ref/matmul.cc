// Matrix products.
#include "device/ref/common.h"
#include "device/ref/kernels.h"

namespace ebb::device::ref {
namespace {

// One product [m,k] x [k,n]; strides step over rows and columns of the operands as they multiply.
struct Product {
  int64_t m, n, k;
  int64_t a_row, a_col, b_row, b_col;

  template <class T>
  double Element(const T* a, const T* b, int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t l = 0; l < k; ++l) {
      sum += static_cast<double>(a[i * a_row + l * a_col]) *
             static_cast<double>(b[l * b_row + j * b_col]);
    }
    return sum;
  }
};

Product ProductOf(const Graph& graph, const Node& node) {
  const Shape& a = InType(graph, node, 0).shape;
  const Shape& y = OutType(graph, node).shape;
  const bool trans_a = node.attrs.Int("trans_a", 0) != 0;
  const bool trans_b = node.attrs.Int("trans_b", 0) != 0;
  Product p{};
  p.m = y[y.size() - 2];
  p.n = y[y.size() - 1];
  p.k = trans_a ? a[a.size() - 2] : a[a.size() - 1];
  p.a_row = trans_a ? 1 : p.k;
  p.a_col = trans_a ? p.m : 1;
  p.b_row = trans_b ? 1 : p.n;
  p.b_col = trans_b ? p.k : 1;
  return p;
}

Shape Leading(const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); }

absl::StatusOr<Kernel> MatMul(const Graph& graph, const Node& node) {
  const Product p = ProductOf(graph, node);
  const Shape batch = Leading(OutType(graph, node).shape);
  // In matrices, not elements.
  const std::array<Shape, 2> strides = {
      BroadcastStrides(Leading(InType(graph, node, 0).shape), batch),
      BroadcastStrides(Leading(InType(graph, node, 1).shape), batch)};
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    Walk(batch, strides, [&](int64_t matrix, const std::array<int64_t, 2>& at) {
      const T* a = In<T>(args, 0) + at[0] * p.m * p.k;
      const T* b = In<T>(args, 1) + at[1] * p.k * p.n;
      T* y = Out<T>(args) + matrix * p.m * p.n;
      for (int64_t i = 0; i < p.m; ++i) {
        for (int64_t j = 0; j < p.n; ++j) y[i * p.n + j] = static_cast<T>(p.Element(a, b, i, j));
      }
    });
  });
}

absl::StatusOr<Kernel> Gemm(const Graph& graph, const Node& node) {
  const Product p = ProductOf(graph, node);
  const double alpha = node.attrs.Float("alpha", 1);
  const double beta = node.attrs.Float("beta", 1);
  Shape c_strides = {0, 0};
  if (HasInput(node, 2)) {
    c_strides = BroadcastStrides(InType(graph, node, 2).shape, OutType(graph, node).shape);
  }
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const T* c = In<T>(args, 2);
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = alpha * p.Element(In<T>(args, 0), In<T>(args, 1), i, j);
        if (c != nullptr) sum += beta * static_cast<double>(c[i * c_strides[0] + j * c_strides[1]]);
        Out<T>(args)[i * p.n + j] = static_cast<T>(sum);
      }
    }
  });
}

}  // namespace

absl::Span<const KernelRow> Matmul() {
  static constexpr KernelRow kRows[] = {{"MatMul", MatMul}, {"Gemm", Gemm}};
  return kRows;
}

}  // namespace ebb::device::ref
