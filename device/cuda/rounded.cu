#include <utility>

#include "absl/container/inlined_vector.h"
#include "base/status.h"
#include "device/common/half.h"
#include "device/cuda/launch.h"
#include "device/cuda/rounded.h"

namespace ebb::device::cuda {
namespace {

constexpr Bytes kAlignment(256);

// Map widens what it reads and rounds what it writes.
struct Same {
  EBB_INLINE float operator()(float value) const { return value; }
};

template <class T>
absl::Status LoadFrom(const Launch& at, const RoundedOperand& operand, const void* from,
                      float* to) {
  return Map(at, operand.elements, Same(), to, static_cast<const T*>(from));
}
template <class T>
absl::Status RoundTo(const Launch& at, const RoundedOperand& operand, const float* from, void* to) {
  return Map(at, operand.elements, Same(), static_cast<T*>(to), from);
}

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
    const auto load = plan.in[i].dtype == DType::kBF16 ? LoadFrom<Bf16> : LoadFrom<F16>;
    EBB_RETURN_IF_ERROR(load(at, plan.in[i], in[i], copy(plan.in[i])));
    in[i] = copy(plan.in[i]);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (plan.out[i].low) out[i] = copy(plan.out[i]);
  }
  EBB_RETURN_IF_ERROR(kernel.enqueue(at, {.in = in, .out = out, .workspace = base + plan.bytes}));
  for (size_t i = 0; i < out.size(); ++i) {
    if (!plan.out[i].low) continue;
    const auto round = plan.out[i].dtype == DType::kBF16 ? RoundTo<Bf16> : RoundTo<F16>;
    EBB_RETURN_IF_ERROR(round(at, plan.out[i], copy(plan.out[i]), args.out[i]));
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
