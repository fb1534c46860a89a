// Dropout by counters: the mask of an element depends on the seed, the step and the node only.
#include <algorithm>

#include "device/cpu/common.h"
#include "device/cpu/vec.h"
#include "device/math/dropout.h"

namespace ebb::device::cpu {
namespace {

constexpr int64_t kGroups = 16;  // counters computed side by side; four elements each

// Words of the counters group, group + 1, ...: words[4 * i + j]. Philox(), a lane a counter.
EBB_CLONES void PhiloxGroups(uint64_t group, uint32_t stream, uint32_t step, PhiloxKey key,
                             uint32_t* words) {
  uint32_t c0[kGroups], c1[kGroups], c2[kGroups], c3[kGroups];
  for (int64_t i = 0; i < kGroups; ++i) {
    c0[i] = static_cast<uint32_t>(group + static_cast<uint64_t>(i));
    c1[i] = static_cast<uint32_t>((group + static_cast<uint64_t>(i)) >> 32);
    c2[i] = stream;
    c3[i] = step;
  }
  for (int round = 0; round < 10; ++round) {
    for (int64_t i = 0; i < kGroups; ++i) {
      const uint64_t product0 = uint64_t{0xD2511F53u} * c0[i];
      const uint64_t product1 = uint64_t{0xCD9E8D57u} * c2[i];
      c0[i] = static_cast<uint32_t>(product1 >> 32) ^ c1[i] ^ key[0];
      c2[i] = static_cast<uint32_t>(product0 >> 32) ^ c3[i] ^ key[1];
      c1[i] = static_cast<uint32_t>(product1);
      c3[i] = static_cast<uint32_t>(product0);
    }
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  for (int64_t i = 0; i < kGroups; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

EBB_CLONES void Drop(const uint32_t* words, const float* x, float* y, uint8_t* mask, int64_t n,
                     float ratio, float scale) {
  for (int64_t i = 0; i < n; ++i) {
    const bool keep = math::IsKept(words[i], ratio);
    mask[i] = keep ? 1 : 0;
    y[i] = keep ? x[i] * scale : 0.0f;
  }
}

EBB_CLONES void DropGrad(const float* dy, const uint8_t* mask, float* dx, int64_t n, float scale) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) dx[i] = mask[i] != 0 ? dy[i] * scale : 0.0f;
}

absl::StatusOr<Kernel> MakeDropout(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));  // elements are counted in plain order
  const int64_t n = OutElements(graph, node);
  const double ratio = node.attrs.Float("ratio", 0.5);
  const uint32_t stream = static_cast<uint32_t>(node.attrs.Int("stream", 0));
  return MakeKernel([=](const KernelArgs& args) {
    const int64_t* rng = InPtr<int64_t>(args, 1);
    const PhiloxKey key = PhiloxKeyFrom(static_cast<uint64_t>(rng[0]));
    const float* x = InPtr<float>(args);
    float* y = OutPtr<float>(args);
    uint8_t* mask = OutPtr<uint8_t>(args, 1);
    uint32_t words[4 * kGroups];
    for (int64_t i = 0; i < n; i += 4 * kGroups) {
      PhiloxGroups(static_cast<uint64_t>(i / 4), stream, static_cast<uint32_t>(rng[1]), key, words);
      Drop(words, x + i, y + i, mask + i, std::min(4 * kGroups, n - i), static_cast<float>(ratio),
           math::KeptScale(ratio));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeDropoutGrad(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const int64_t n = OutElements(graph, node);
  const float scale = math::KeptScale(node.attrs.Float("ratio", 0.5));
  return MakeKernel([n, scale](const KernelArgs& args) {
    DropGrad(InPtr<float>(args), InPtr<uint8_t>(args, 1), OutPtr<float>(args), n, scale);
    return absl::OkStatus();
  });
}

constexpr KernelRow kRows[] = {{"Dropout", MakeDropout}, {"DropoutGrad", MakeDropoutGrad}};

}  // namespace

absl::Span<const KernelRow> RandomKernels() { return kRows; }

}  // namespace ebb::device::cpu
