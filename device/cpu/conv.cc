// Convolution and its gradients: shapes and layouts here, the arithmetic in oneDNN.
#include <algorithm>

#include "device/cpu/common.h"
#include "device/cpu/onednn.h"

namespace ebb::device::cpu {
namespace {

bool Empty(const Shape& shape) { return NumElements(shape) == 0; }

absl::StatusOr<ConvSpec> SpecOf(ConvKind kind, const Node& node, const Value& x, const Shape& w,
                                const Value& y) {
  ConvSpec spec;
  spec.kind = kind;
  spec.x.assign(x.type.shape.begin(), x.type.shape.end());
  spec.w.assign(w.begin(), w.end());
  spec.y.assign(y.type.shape.begin(), y.type.shape.end());
  const size_t spatial = x.type.shape.size() - 2;
  spec.strides = node.attrs.Ints("strides", std::vector<int64_t>(spatial, 1));
  spec.dilations = node.attrs.Ints("dilations", std::vector<int64_t>(spatial, 1));
  const std::vector<int64_t> pads = node.attrs.Ints("pads", std::vector<int64_t>(2 * spatial, 0));
  spec.pads_begin.assign(pads.begin(), pads.begin() + static_cast<int64_t>(spatial));
  spec.pads_end.assign(pads.begin() + static_cast<int64_t>(spatial), pads.end());
  spec.groups = node.attrs.Int("groups", 1);
  if (x.layout != y.layout && !LayoutFree(x.type.shape) && !LayoutFree(y.type.shape)) {
    return absl::UnimplementedError("a convolution on cpu keeps its operand's layout");
  }
  const Layout layout = LayoutFree(x.type.shape) ? y.layout : x.layout;
  spec.channels_last = layout == Layout::kChannelsLast;
  return spec;
}

// A 1x1 convolution in channels-last order is a product of matrices [positions, channels].
bool IsProduct(const ConvSpec& spec) {
  const auto all = [](const std::vector<int64_t>& values, int64_t want) {
    return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == want; });
  };
  return spec.channels_last && spec.groups == 1 && all({spec.w.begin() + 2, spec.w.end()}, 1) &&
         all(spec.strides, 1) && all(spec.pads_begin, 0) && all(spec.pads_end, 0);
}

// The gradients of such a convolution: sgemm is up to a third faster than oneDNN's 1x1 kernels.
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
  if (spec.kind != ConvKind::kForward && IsProduct(spec)) return ProductGrad(spec);
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
  EBB_ASSIGN_OR_RETURN(ConvSpec spec, SpecOf(ConvKind::kForward, node, x, w, y));
  spec.bias = HasInput(node, 2);
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
  EBB_ASSIGN_OR_RETURN(const ConvSpec spec, SpecOf(ConvKind::kGradInput, node, dx, w, dy));
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
  EBB_ASSIGN_OR_RETURN(const ConvSpec spec, SpecOf(ConvKind::kGradWeight, node, x, w, dy));
  return KernelOf(spec);
}

constexpr KernelRow kRows[] = {
    {"Conv", MakeConv}, {"ConvGradInput", MakeGradInput}, {"ConvGradWeight", MakeGradWeight}};

}  // namespace

absl::Span<const KernelRow> ConvKernels() { return kRows; }

}  // namespace ebb::device::cpu
