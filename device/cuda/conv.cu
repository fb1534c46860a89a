// Convolution and its gradients: the library computes, the loops here bring operands into the order
// that it wants. Weights are kept plain, and are turned to channels last where x and y are; where
// the padding is not the same at both ends, x is padded in memory.
#include "base/status.h"
#include "device/common/half.h"
#include "device/cuda/fill.h"
#include "device/cuda/launch.h"
#include "device/cuda/library.h"

namespace ebb::device::cuda {
namespace {

constexpr Bytes kAlignment(256);
constexpr int kMaxDims = 5;

bool Empty(const Shape& shape) { return NumElements(shape) == 0; }
int64_t Count(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}
template <class T>
Bytes BytesOf(const std::vector<int64_t>& dims) {
  return AlignUp(Bytes(Count(dims) * static_cast<int64_t>(sizeof(T))), kAlignment);
}

// [outer, rows, columns] to [outer, columns, rows].
template <class T>
struct Turn {
  const T* from;
  T* to;
  int64_t rows, columns;
  EBB_INLINE void operator()(int64_t i) const {
    const int64_t row = i % rows;
    const int64_t column = i / rows % columns;
    const int64_t outer = i / rows / columns;
    to[i] = from[(outer * rows + row) * columns + column];
  }
};

// A box inside a larger one, both dense, the last dimension first.
struct Box {
  int rank;
  int64_t inner[kMaxDims], outer[kMaxDims], before[kMaxDims];
};

// The larger box: the smaller one with zeros around it.
template <class T>
struct Pad {
  const T* from;
  T* to;
  Box box;
  EBB_INLINE void operator()(int64_t i) const {
    int64_t rest = i, at = 0, step = 1;
    bool inside = true;
    for (int d = 0; d < box.rank; ++d) {
      const int64_t place = rest % box.outer[d] - box.before[d];
      rest /= box.outer[d];
      inside = inside && place >= 0 && place < box.inner[d];
      at += place * step;
      step *= box.inner[d];
    }
    to[i] = inside ? from[at] : T{};
  }
};

// The smaller box out of the larger one.
template <class T>
struct Crop {
  const T* from;
  T* to;
  Box box;
  EBB_INLINE void operator()(int64_t i) const {
    int64_t rest = i, at = 0, step = 1;
    for (int d = 0; d < box.rank; ++d) {
      at += (rest % box.inner[d] + box.before[d]) * step;
      rest /= box.inner[d];
      step *= box.outer[d];
    }
    to[i] = from[at];
  }
};

// y += bias, whose channels are `inner` elements wide.
template <class T>
struct AddBias {
  const T* bias;
  T* y;
  int64_t channels, inner;
  EBB_INLINE void operator()(int64_t i) const {
    Narrow(Widen(y[i]) + Widen(bias[i / inner % channels]), y + i);
  }
};

template <class T>
struct ConvKernel {
  ConvSpec spec;
  std::shared_ptr<const Convolution> conv;
  bool turned = false;  // the library's w is not in the order of ours
  bool padded = false;  // the library's x has its padding in it
  int64_t padded_size = 0;
  Box box = {};
  // Workspace: w turned, x padded, the library's.
  Bytes padded_at, conv_at;

  Bytes workspace() const { return conv_at + AlignUp(conv->workspace(), kAlignment); }

  int64_t filters() const { return spec.w[0]; }
  int64_t group_channels() const { return spec.w[1]; }
  int64_t taps() const { return Count(spec.w) / (filters() * group_channels()); }

  absl::Status TurnToLibrary(const Launch& at, const T* w, T* to) const {
    return ForEach(at, Count(spec.w), Turn<T>{w, to, group_channels(), taps()});
  }
  absl::Status TurnFromLibrary(const Launch& at, const T* dw, T* to) const {
    return ForEach(at, Count(spec.w), Turn<T>{dw, to, taps(), group_channels()});
  }

  absl::Status operator()(const Launch& at, const KernelArgs& args) const {
    char* const workspace = static_cast<char*>(args.workspace);
    auto* const w = reinterpret_cast<T*>(workspace);
    auto* const x = reinterpret_cast<T*>(workspace + padded_at.count());
    void* const scratch = workspace + conv_at.count();
    const T *a = InPtr<T>(args, 0), *b = InPtr<T>(args, 1);
    T* const out = OutPtr<T>(args);
    if (turned && spec.kind != ConvKind::kGradWeight) {
      EBB_RETURN_IF_ERROR(TurnToLibrary(at, b, w));
      b = w;
    }
    switch (spec.kind) {
      case ConvKind::kForward:
        if (padded) {
          EBB_RETURN_IF_ERROR(ForEach(at, padded_size, Pad<T>{a, x, box}));
          a = x;
        }
        EBB_RETURN_IF_ERROR(conv->Enqueue(at, a, b, out, scratch));
        return Bias(at, InPtr<T>(args, 2), out);
      case ConvKind::kGradInput:
        EBB_RETURN_IF_ERROR(conv->Enqueue(at, a, b, padded ? x : out, scratch));
        return padded ? ForEach(at, Count(spec.x), Crop<T>{x, out, box}) : absl::OkStatus();
      case ConvKind::kGradWeight:
        break;
    }
    if (padded) {
      EBB_RETURN_IF_ERROR(ForEach(at, padded_size, Pad<T>{b, x, box}));
      b = x;
    }
    EBB_RETURN_IF_ERROR(conv->Enqueue(at, a, b, turned ? w : out, scratch));
    return turned ? TurnFromLibrary(at, w, out) : absl::OkStatus();
  }

  absl::Status Bias(const Launch& at, const T* bias, T* y) const {
    if (bias == nullptr) return absl::OkStatus();
    const int64_t inner = spec.channels_last ? 1 : Count(spec.y) / (spec.y[0] * spec.y[1]);
    return ForEach(at, Count(spec.y), AddBias<T>{bias, y, spec.y[1], inner});
  }
};

// x with its padding in it: the same convolution, without.
ConvSpec PaddedSpec(const ConvSpec& spec) {
  ConvSpec padded = spec;
  for (size_t d = 0; d < spec.pads_begin.size(); ++d) {
    padded.x[d + 2] += spec.pads_begin[d] + spec.pads_end[d];
    padded.pads_begin[d] = padded.pads_end[d] = 0;
  }
  return padded;
}

Box BoxOf(const ConvSpec& spec, const ConvSpec& padded) {
  Box box = {};
  const auto add = [&](size_t d, int64_t before) {
    box.inner[box.rank] = spec.x[d];
    box.outer[box.rank] = padded.x[d];
    box.before[box.rank++] = before;
  };
  if (spec.channels_last) add(1, 0);
  for (size_t d = spec.x.size(); d-- > 2;) add(d, spec.pads_begin[d - 2]);
  if (!spec.channels_last) add(1, 0);
  add(0, 0);
  return box;
}

template <class T>
absl::StatusOr<CudaKernel> MakeKernel(Library& library, const ConvSpec& spec) {
  ConvKernel<T> kernel;
  kernel.spec = spec;
  kernel.padded = spec.pads_begin != spec.pads_end;
  const ConvSpec with_padding = PaddedSpec(spec);
  if (!kernel.padded) {
    absl::StatusOr<std::shared_ptr<const Convolution>> conv = library.MakeConvolution(spec);
    if (conv.ok()) {
      kernel.conv = *std::move(conv);
    } else if (absl::IsUnimplemented(conv.status()) && with_padding.x != spec.x) {
      kernel.padded = true;  // no algorithm takes so large a padding
    } else {
      return conv.status();
    }
  }
  if (kernel.padded) {
    EBB_ASSIGN_OR_RETURN(kernel.conv, library.MakeConvolution(with_padding));
    kernel.box = BoxOf(spec, with_padding);
    kernel.padded_size = Count(with_padding.x);
  }
  kernel.turned = spec.channels_last && kernel.group_channels() > 1 && kernel.taps() > 1;
  kernel.padded_at = kernel.turned ? BytesOf<T>(spec.w) : Bytes(0);
  kernel.conv_at = kernel.padded_at + (kernel.padded ? BytesOf<T>(with_padding.x) : Bytes(0));
  const Bytes workspace = kernel.workspace();
  return MakeCudaKernel(std::move(kernel), workspace);
}

absl::StatusOr<CudaKernel> MakeConv(Library& library, const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  const Shape& out = Out(graph, node).type.shape;
  if (Empty(out) || Empty(In(graph, node, 0).type.shape) || Empty(In(graph, node, 1).type.shape)) {
    // Nothing to sum. A forward convolution has no channels to sum over then only if it is empty.
    const int64_t words = Out(graph, node).type.bytes().count() / 2;
    return MakeCudaKernel([words](const Launch& at, const KernelArgs& args) {
      return Fill(at, OutPtr<uint16_t>(args), words, uint16_t{0});
    });
  }
  EBB_ASSIGN_OR_RETURN(ConvSpec spec, ConvSpecOf(graph, node));
  spec.bias = false;  // added here
  if (spec.precision == Precision::kBf16) return MakeKernel<Bf16>(library, spec);
  if (spec.precision == Precision::kF16) return MakeKernel<F16>(library, spec);
  return MakeKernel<float>(library, spec);
}

constexpr LibraryKernelRow kRows[] = {
    {"Conv", MakeConv}, {"ConvGradInput", MakeConv}, {"ConvGradWeight", MakeConv}};

}  // namespace

absl::Span<const LibraryKernelRow> ConvKernels() { return kRows; }

}  // namespace ebb::device::cuda
