// Dropout by counters: the mask of an element depends on the seed, the step and the node only.
#include "base/status.h"
#include "device/common/dispatch.h"
#include "device/cuda/launch.h"
#include "device/math/dropout.h"

namespace ebb::device::cuda {
namespace {

constexpr int kWords = 4;  // of a counter: one an element

// Elements 4 i to 4 i + 3. The seed and the step are in the device's memory.
template <class T>
struct Drop {
  EBB_INLINE void operator()(int64_t group) const {
    const auto counter = static_cast<uint64_t>(group);
    const PhiloxCounter words =
        Philox({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), stream,
                static_cast<uint32_t>(rng[1])},
               PhiloxKeyFrom(static_cast<uint64_t>(rng[0])));
    if (packed && (group + 1) * kWords <= n) {
      const auto in = reinterpret_cast<const Pack<T, kWords>*>(x)[group];
      Pack<T, kWords> out;
      Pack<uint8_t, kWords> kept;
      EBB_UNROLL
      for (int w = 0; w < kWords; ++w) {
        kept.at[w] = math::IsKept(words[w], ratio) ? 1 : 0;
        out.at[w] = Stored<T>(kept.at[w] != 0 ? Read(in.at[w]) * scale : 0.0f);
      }
      reinterpret_cast<Pack<T, kWords>*>(y)[group] = out;
      reinterpret_cast<Pack<uint8_t, kWords>*>(mask)[group] = kept;
      return;
    }
    EBB_UNROLL
    for (int w = 0; w < kWords; ++w) {
      const int64_t i = group * kWords + w;
      if (i >= n) break;
      const bool keep = math::IsKept(words[w], ratio);
      mask[i] = keep ? 1 : 0;
      y[i] = Stored<T>(keep ? Read(x[i]) * scale : 0.0f);
    }
  }
  const T* x;
  const int64_t* rng;
  T* y;
  uint8_t* mask;
  int64_t n;
  uint32_t stream;
  float ratio, scale;
  bool packed;
};

absl::StatusOr<CudaKernel> MakeDropout(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));  // elements are counted in plain order
  const int64_t n = OutElements(graph, node);
  const double ratio = node.attrs.Float("ratio", 0.5);
  const auto stream = static_cast<uint32_t>(node.attrs.Int("stream", 0));
  return ForFloat(node, Out(graph, node).type.dtype, [=](auto zero) {
    using T = decltype(zero);
    return MakeCudaKernel([=](const Launch& at, const KernelArgs& args) {
      const T* x = InPtr<T>(args);
      T* y = OutPtr<T>(args);
      auto* mask = OutPtr<uint8_t>(args, 1);
      return ForEach(
          at, (n + kWords - 1) / kWords,
          Drop<T>{x, InPtr<int64_t>(args, 1), y, mask, n, stream, static_cast<float>(ratio),
                  math::KeptScale(ratio), internal::AlignedTo16(x, y, mask)});
    });
  });
}

struct DropGrad {
  EBB_INLINE float operator()(float dy, uint8_t kept) const {
    return kept != 0 ? dy * scale : 0.0f;
  }
  float scale;
};

absl::StatusOr<CudaKernel> MakeDropoutGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const int64_t n = OutElements(graph, node);
  const DropGrad f{math::KeptScale(node.attrs.Float("ratio", 0.5))};
  return ForFloat(node, Out(graph, node).type.dtype, [=](auto zero) {
    using T = decltype(zero);
    return MakeCudaKernel([n, f](const Launch& at, const KernelArgs& args) {
      return Map(at, n, f, OutPtr<T>(args), InPtr<T>(args), InPtr<uint8_t>(args, 1));
    });
  });
}

constexpr CudaKernelRow kRows[] = {{"Dropout", MakeDropout}, {"DropoutGrad", MakeDropoutGrad}};

}  // namespace

absl::Span<const CudaKernelRow> RandomKernels() { return kRows; }

}  // namespace ebb::device::cuda
