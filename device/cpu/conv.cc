// Convolution and its gradients: shapes and layouts here, the arithmetic in oneDNN.
#include <algorithm>

#include "device/cpu/common.h"
#include "device/cpu/onednn.h"

namespace ebb::device::cpu {
namespace {

bool Empty(const Shape& shape) { return NumElements(shape) == 0; }

// The gradients of a product of matrices: sgemm is up to a third faster than oneDNN's 1x1 kernels.
Kernel ProductGrad(const ConvSpec& spec) {
  const int64_t channels = spec.x[1];
  const int64_t filters = spec.y[1];
  int64_t positions = spec.x[0];
  for (size_t d = 2; d < spec.x.size(); ++d) positions *= spec.x[d];
  GemmSpec gemm;
  gemm.threads = OmpThreads();
  gemm.n = gemm.ldb = gemm.ldc = channels;
  gemm.lda = filters;
  if (spec.kind == ConvKind::kGradInput) {  // dx [positions, channels] = dy w
    gemm.m = positions;
    gemm.k = filters;
  } else {  // dw [filters, channels] = dy' x
    gemm.trans_a = true;
    gemm.m = filters;
    gemm.k = positions;
  }
  return MakeKernel([gemm](const KernelArgs& args) {
    return Sgemm(gemm, 1, InPtr<float>(args, 0), InPtr<float>(args, 1), 0, OutPtr<float>(args));
  });
}

absl::StatusOr<Kernel> KernelOf(const ConvSpec& spec) {
  if (spec.kind != ConvKind::kForward && spec.IsProduct()) return ProductGrad(spec);
  EBB_ASSIGN_OR_RETURN(const std::shared_ptr<const Convolution> conv, MakeConvolution(spec));
  return MakeKernel(
      [conv](const KernelArgs& args) {
        return conv->Run(InPtr<float>(args, 0), InPtr<float>(args, 1), InPtr<float>(args, 2),
                         OutPtr<float>(args), args.workspace);
      },
      conv->workspace());
}

// Nothing to sum: the output is zero.
Kernel Zero(int64_t n) {
  return MakeKernel([n](const KernelArgs& args) {
    std::fill_n(OutPtr<float>(args), n, 0.0f);
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeConv(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  const Value& x = In(graph, node, 0);
  const Shape& w = In(graph, node, 1).type.shape;
  const Value& y = Out(graph, node);
  if (Empty(y.type.shape)) return Zero(0);
  if (Empty(x.type.shape) || Empty(w)) {
    return absl::UnimplementedError("a convolution over nothing has no kernel on cpu");
  }
  EBB_ASSIGN_OR_RETURN(const ConvSpec spec, ConvSpecOf(graph, node));
  return KernelOf(spec);
}

absl::StatusOr<Kernel> MakeGradInput(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  const Value& dy = In(graph, node, 0);
  const Shape& w = In(graph, node, 1).type.shape;
  const Value& dx = Out(graph, node);
  if (Empty(dx.type.shape) || Empty(dy.type.shape) || Empty(w)) {
    return Zero(OutElements(graph, node));
  }
  EBB_ASSIGN_OR_RETURN(const ConvSpec spec, ConvSpecOf(graph, node));
  return KernelOf(spec);
}

absl::StatusOr<Kernel> MakeGradWeight(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  const Value& dy = In(graph, node, 0);
  const Value& x = In(graph, node, 1);
  const Shape& w = Out(graph, node).type.shape;
  if (Empty(dy.type.shape) || Empty(x.type.shape) || Empty(w)) {
    return Zero(OutElements(graph, node));
  }
  EBB_ASSIGN_OR_RETURN(const ConvSpec spec, ConvSpecOf(graph, node));
  return KernelOf(spec);
}

constexpr KernelRow kRows[] = {
    {"Conv", MakeConv}, {"ConvGradInput", MakeGradInput}, {"ConvGradWeight", MakeGradWeight}};

}  // namespace

absl::Span<const KernelRow> ConvKernels() { return kRows; }

}  // namespace ebb::device::cpu
