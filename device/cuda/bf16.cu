#include <utility>

#include "absl/container/inlined_vector.h"
#include "base/status.h"
#include "device/common/bf16.h"
#include "device/cuda/bf16.h"
#include "device/cuda/launch.h"

namespace ebb::device::cuda {
namespace {

constexpr Bytes kAlignment(256);

struct Widen {
  EBB_INLINE float operator()(uint16_t bits) const { return FromBf16(bits); }
};
struct Narrow {
  EBB_INLINE uint16_t operator()(float value) const { return ToBf16(value); }
};

absl::Status EnqueueRounded(const RoundedPlan& plan, const CudaKernel& kernel, const Launch& at,
                            const KernelArgs& args) {
  auto* const base = static_cast<char*>(args.workspace);
  const auto copy = [base](const RoundedOperand& operand) {
    return reinterpret_cast<float*>(base + operand.offset);
  };
  absl::InlinedVector<void*, 16> in(args.in.begin(), args.in.end());
  absl::InlinedVector<void*, 16> out(args.out.begin(), args.out.end());
  for (size_t i = 0; i < in.size(); ++i) {
    if (!plan.in[i].low || in[i] == nullptr) continue;
    EBB_RETURN_IF_ERROR(Map(at, plan.in[i].elements, Widen(), copy(plan.in[i]),
                            static_cast<const uint16_t*>(in[i])));
    in[i] = copy(plan.in[i]);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (plan.out[i].low) out[i] = copy(plan.out[i]);
  }
  EBB_RETURN_IF_ERROR(kernel.enqueue(at, {.in = in, .out = out, .workspace = base + plan.bytes}));
  for (size_t i = 0; i < out.size(); ++i) {
    if (!plan.out[i].low) continue;
    EBB_RETURN_IF_ERROR(Map(at, plan.out[i].elements, Narrow(), static_cast<uint16_t*>(args.out[i]),
                            static_cast<const float*>(copy(plan.out[i]))));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CudaKernel> MakeRounded(const Graph& graph, const Node& node,
                                       const KernelMaker& make) {
  EBB_ASSIGN_OR_RETURN(RoundedPlan plan, PlanRounded(graph, node, kAlignment));
  EBB_ASSIGN_OR_RETURN(CudaKernel kernel, make(*plan.shadow, plan.shadow->nodes[0]));
  const Bytes workspace = kernel.workspace + Bytes(plan.bytes);
  return MakeCudaKernel(
      [plan = std::move(plan), kernel = std::move(kernel)](const Launch& at,
                                                           const KernelArgs& args) {
        return EnqueueRounded(plan, kernel, at, args);
      },
      workspace);
}

}  // namespace ebb::device::cuda
