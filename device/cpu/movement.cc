// Ops that move elements: views, transposes, concatenation, slices, padding and layout changes.
#include <algorithm>
#include <cstring>

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

Kernel CopyKernel(const StridedCopy& copy) {
  return MakeKernel([copy](const KernelArgs& args) {
    copy.Run(args.in[0], args.out[0]);
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeLayout(const Graph& graph, const Node& node) {
  const Value& x = In(graph, node);
  const Value& y = Out(graph, node);
  return CopyKernel(
      MakeStridedCopy(x.type.shape, LogicalStrides(x), LogicalStrides(y), x.type.dtype));
}

absl::StatusOr<Kernel> MakeTranspose(const Graph& graph, const Node& node) {
  const Value& x = In(graph, node);
  const Value& y = Out(graph, node);
  const std::vector<int64_t> perm = node.attrs.Ints("perm");
  const Shape strides = LogicalStrides(x);
  Shape from(perm.size());
  for (size_t d = 0; d < perm.size(); ++d) from[d] = strides[static_cast<size_t>(perm[d])];
  return CopyKernel(MakeStridedCopy(y.type.shape, from, LogicalStrides(y), x.type.dtype));
}

absl::StatusOr<Kernel> MakeConcat(const Graph& graph, const Node& node) {
  const Value& y = Out(graph, node);
  const size_t axis = static_cast<size_t>(node.attrs.Int("axis", 0));
  const Shape to = LogicalStrides(y);
  std::vector<StridedCopy> copies;
  int64_t at = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Value& x = In(graph, node, i);
    copies.push_back(
        MakeStridedCopy(x.type.shape, LogicalStrides(x), to, x.type.dtype, 0, at * to[axis]));
    at += x.type.shape[axis];
  }
  return MakeKernel([copies](const KernelArgs& args) {
    for (size_t i = 0; i < copies.size(); ++i) copies[i].Run(args.in[i], args.out[0]);
    return absl::OkStatus();
  });
}

// A slice's view of a value: where it starts and its strides.
struct SliceView {
  Shape strides;
  int64_t base = 0;
};

SliceView SliceOf(const Node& node, const Value& whole) {
  SliceView view{LogicalStrides(whole), 0};
  const std::vector<int64_t> starts = node.attrs.Ints("starts");
  const std::vector<int64_t> axes = node.attrs.Ints("axes");
  const std::vector<int64_t> steps = node.attrs.Ints("steps", std::vector<int64_t>(axes.size(), 1));
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = static_cast<size_t>(axes[i]);
    view.base += starts[i] * view.strides[axis];
    view.strides[axis] *= steps[i];
  }
  return view;
}

absl::StatusOr<Kernel> MakeSlice(const Graph& graph, const Node& node) {
  const Value& y = Out(graph, node);
  const SliceView view = SliceOf(node, In(graph, node));
  return CopyKernel(
      MakeStridedCopy(y.type.shape, view.strides, LogicalStrides(y), y.type.dtype, view.base));
}

absl::StatusOr<Kernel> MakeSliceGrad(const Graph& graph, const Node& node) {
  const Value& dy = In(graph, node);
  const Value& dx = Out(graph, node);
  const SliceView view = SliceOf(node, dx);
  const StridedCopy copy =
      MakeStridedCopy(dy.type.shape, LogicalStrides(dy), view.strides, dy.type.dtype, 0, view.base);
  const size_t bytes = static_cast<size_t>(dx.type.bytes().count());
  return MakeKernel([copy, bytes](const KernelArgs& args) {
    std::memset(args.out[0], 0, bytes);
    copy.Run(args.in[0], args.out[0]);
    return absl::OkStatus();
  });
}

template <class T>
Kernel PadOf(const StridedCopy& copy, int64_t n, double value) {
  return MakeKernel([copy, n, fill = static_cast<T>(value)](const KernelArgs& args) {
    std::fill_n(OutPtr<T>(args), n, fill);
    copy.Run(args.in[0], args.out[0]);
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakePad(const Graph& graph, const Node& node) {
  if (const std::string mode = node.attrs.Str("mode", "constant"); mode != "constant") {
    return absl::UnimplementedError("Pad on cpu pads with a constant only");
  }
  const Value& x = In(graph, node);
  const Value& y = Out(graph, node);
  const std::vector<int64_t> pads = node.attrs.Ints("pads");
  const size_t rank = x.type.shape.size();
  const Shape from = LogicalStrides(x);
  const Shape to = LogicalStrides(y);
  Shape dims(rank);
  int64_t from_base = 0;
  int64_t to_base = 0;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t skip = std::max<int64_t>(-pads[d], 0);  // cut off the input's front
    const int64_t lead = std::max<int64_t>(pads[d], 0);
    dims[d] = std::max<int64_t>(std::min(x.type.shape[d] - skip, y.type.shape[d] - lead), 0);
    from_base += skip * from[d];
    to_base += lead * to[d];
  }
  const StridedCopy copy = MakeStridedCopy(dims, from, to, x.type.dtype, from_base, to_base);
  const int64_t n = OutElements(graph, node);
  const double value = node.attrs.Float("value", 0);
  switch (x.type.dtype) {
    case DType::kF32:
      return PadOf<float>(copy, n, value);
    case DType::kF64:
      return PadOf<double>(copy, n, value);
    case DType::kI32:
      return PadOf<int32_t>(copy, n, value);
    case DType::kI64:
      return PadOf<int64_t>(copy, n, value);
    case DType::kU8:
    case DType::kBool:
      break;
  }
  return PadOf<uint8_t>(copy, n, value);
}

constexpr KernelRow kRows[] = {
    {"Concat", MakeConcat},         {"Identity", MakeView},  {"Pad", MakePad},
    {"Reshape", MakeView},          {"Slice", MakeSlice},    {"SliceGrad", MakeSliceGrad},
    {"ToChannelsLast", MakeLayout}, {"ToPlain", MakeLayout}, {"Transpose", MakeTranspose},
    {"Fetch", MakeFetch},           {"Store", MakeStore},
};

}  // namespace

absl::Span<const KernelRow> MovementKernels() { return kRows; }

}  // namespace ebb::device::cpu
