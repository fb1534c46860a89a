// Ops that move elements: views, transposes, concatenation, slices, padding and layout changes.
#include "base/status.h"
#include "device/common/dispatch.h"
#include "device/cuda/fill.h"
#include "device/cuda/strided.h"

namespace ebb::device::cuda {
namespace {

CudaKernel CopyOf(int64_t bytes) {
  return MakeCudaKernel([bytes](const Launch& at, const KernelArgs& args) {
    return Copy(at, args.out[0], args.in[0], bytes);
  });
}

// The runtime gives views their input's bytes; where it does not, they are copied.
absl::StatusOr<CudaKernel> MakeView(const Graph& graph, const Node& node) {
  if (node.op->name == "Reshape") {
    EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  } else if (In(graph, node).layout != Out(graph, node).layout) {
    return absl::UnimplementedError("Identity on cuda keeps its operand's layout");
  }
  return CopyOf(Out(graph, node).type.bytes().count());
}

// The copy of a state has the state's layout.
absl::StatusOr<CudaKernel> MakeFetch(const Graph& graph, const Node& node) {
  return CopyOf(In(graph, node).type.bytes().count());
}

absl::StatusOr<CudaKernel> MakeStore(const Graph& graph, const Node& node) {
  const int64_t bytes = In(graph, node).type.bytes().count();
  return MakeCudaKernel([bytes](const Launch& at, const KernelArgs& args) {
    return Copy(at, args.in[0], args.in[1], bytes);
  });
}

// The copy that a function of device/common/strided.h makes of the node.
template <StridedCopy (*kCopy)(const Graph&, const Node&)>
absl::StatusOr<CudaKernel> Make(const Graph& graph, const Node& node) {
  return MakeCudaKernel([copy = kCopy(graph, node)](const Launch& at, const KernelArgs& args) {
    return Run(at, copy, args.in[0], args.out[0]);
  });
}

absl::StatusOr<CudaKernel> MakeConcat(const Graph& graph, const Node& node) {
  return MakeCudaKernel(
      [copies = ConcatCopies(graph, node)](const Launch& at, const KernelArgs& args) {
        for (size_t i = 0; i < copies.size(); ++i) {
          EBB_RETURN_IF_ERROR(Run(at, copies[i], args.in[i], args.out[0]));
        }
        return absl::OkStatus();
      });
}

// `value` everywhere, and the copy over it.
template <class T>
CudaKernel FillAndCopy(const StridedCopy& copy, int64_t n, T value) {
  return MakeCudaKernel([copy, n, value](const Launch& at, const KernelArgs& args) {
    EBB_RETURN_IF_ERROR(Fill(at, OutPtr<T>(args), n, value));
    return Run(at, copy, args.in[0], args.out[0]);
  });
}

absl::StatusOr<CudaKernel> FillAndCopy(const Graph& graph, const Node& node,
                                       const StridedCopy& copy, double value) {
  const DType dtype = In(graph, node).type.dtype;
  const auto make = [&, n = OutElements(graph, node)](auto zero) {
    return FillAndCopy(copy, n, Stored<decltype(zero)>(value));
  };
  return graph::IsLow(dtype) ? ForLow(node, dtype, make) : ForStored(node, dtype, make);
}

absl::StatusOr<CudaKernel> MakeSliceGrad(const Graph& graph, const Node& node) {
  return FillAndCopy(graph, node, SliceGradCopy(graph, node), 0);
}

absl::StatusOr<CudaKernel> MakePad(const Graph& graph, const Node& node) {
  if (node.attrs.Str("mode", "constant") != "constant") {
    return absl::UnimplementedError("Pad on cuda pads with a constant only");
  }
  return FillAndCopy(graph, node, PadCopy(graph, node), node.attrs.Float("value", 0));
}

constexpr CudaKernelRow kRows[] = {
    {"Concat", MakeConcat},
    {"Identity", MakeView},
    {"Pad", MakePad},
    {"Reshape", MakeView},
    {"Slice", Make<SliceCopy>},
    {"SliceGrad", MakeSliceGrad},
    {"ToChannelsLast", Make<LayoutCopy>},
    {"ToPlain", Make<LayoutCopy>},
    {"Transpose", Make<TransposeCopy>},
    {"Fetch", MakeFetch},
    {"Store", MakeStore},
};

}  // namespace

absl::Span<const CudaKernelRow> MovementKernels() { return kRows; }

}  // namespace ebb::device::cuda
