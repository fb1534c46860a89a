// Ops that move elements: views, transposes, concatenation, slices, padding and layout changes.
#include <algorithm>
#include <cstring>

#include "device/common/dispatch.h"
#include "device/cpu/common.h"
#include "device/cpu/strided.h"

namespace ebb::device::cpu {
namespace {

// The runtime gives views their input's bytes; where it does not, they are copied.
absl::StatusOr<Kernel> MakeView(const Graph& graph, const Node& node) {
  if (node.op->name == "Reshape") {
    EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  } else if (In(graph, node).layout != Out(graph, node).layout) {
    return absl::UnimplementedError("Identity on cpu keeps its operand's layout");
  }
  const size_t bytes = static_cast<size_t>(Out(graph, node).type.bytes().count());
  return MakeKernel([bytes](const KernelArgs& args) {
    if (args.in[0] != args.out[0] && bytes > 0) std::memcpy(args.out[0], args.in[0], bytes);
    return absl::OkStatus();
  });
}

// The copy of a state has the state's layout.
absl::StatusOr<Kernel> MakeFetch(const Graph& graph, const Node& node) {
  const size_t bytes = static_cast<size_t>(In(graph, node).type.bytes().count());
  return MakeKernel([bytes](const KernelArgs& args) {
    if (bytes > 0) std::memcpy(args.out[0], args.in[0], bytes);
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeStore(const Graph& graph, const Node& node) {
  const size_t bytes = static_cast<size_t>(In(graph, node).type.bytes().count());
  return MakeKernel([bytes](const KernelArgs& args) {
    if (bytes > 0) std::memcpy(args.in[0], args.in[1], bytes);
    return absl::OkStatus();
  });
}

// The copy that a function of device/common/strided.h makes of the node.
template <StridedCopy (*kCopy)(const Graph&, const Node&)>
absl::StatusOr<Kernel> Make(const Graph& graph, const Node& node) {
  return MakeKernel([copy = kCopy(graph, node)](const KernelArgs& args) {
    Run(copy, args.in[0], args.out[0]);
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeConcat(const Graph& graph, const Node& node) {
  return MakeKernel([copies = ConcatCopies(graph, node)](const KernelArgs& args) {
    for (size_t i = 0; i < copies.size(); ++i) Run(copies[i], args.in[i], args.out[0]);
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeSliceGrad(const Graph& graph, const Node& node) {
  const size_t bytes = static_cast<size_t>(Out(graph, node).type.bytes().count());
  return MakeKernel([copy = SliceGradCopy(graph, node), bytes](const KernelArgs& args) {
    std::memset(args.out[0], 0, bytes);
    Run(copy, args.in[0], args.out[0]);
    return absl::OkStatus();
  });
}

template <class T>
Kernel PadOf(const StridedCopy& copy, int64_t n, double value) {
  return MakeKernel([copy, n, fill = static_cast<T>(value)](const KernelArgs& args) {
    std::fill_n(OutPtr<T>(args), n, fill);
    Run(copy, args.in[0], args.out[0]);
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakePad(const Graph& graph, const Node& node) {
  if (const std::string mode = node.attrs.Str("mode", "constant"); mode != "constant") {
    return absl::UnimplementedError("Pad on cpu pads with a constant only");
  }
  const Value& x = In(graph, node);
  const StridedCopy copy = PadCopy(graph, node);
  const int64_t n = OutElements(graph, node);
  const double value = node.attrs.Float("value", 0);
  return ForStored(node, x.type.dtype,
                   [&](auto zero) { return PadOf<decltype(zero)>(copy, n, value); });
}

constexpr KernelRow kRows[] = {
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

absl::Span<const KernelRow> MovementKernels() { return kRows; }

}  // namespace ebb::device::cpu
