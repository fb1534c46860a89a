#include "device/host/bf16.h"

#include <utility>

#include "absl/container/inlined_vector.h"
#include "base/status.h"
#include "device/common/bf16.h"
#include "device/common/rounded.h"

namespace ebb::device {
namespace {

constexpr Bytes kAlignment(64);

void Load(const void* from, float* to, int64_t n) {
  const auto* bits = static_cast<const uint16_t*>(from);
  for (int64_t i = 0; i < n; ++i) to[i] = FromBf16(bits[i]);
}
void Round(const float* from, void* to, int64_t n) {
  auto* bits = static_cast<uint16_t*>(to);
  for (int64_t i = 0; i < n; ++i) bits[i] = ToBf16(from[i]);
}

absl::Status RunRounded(const RoundedPlan& plan, const Kernel& kernel, const KernelArgs& args) {
  auto* const base = static_cast<char*>(args.workspace);
  const auto at = [base](const RoundedOperand& copy) {
    return reinterpret_cast<float*>(base + copy.offset);
  };
  absl::InlinedVector<void*, 16> in(args.in.begin(), args.in.end());
  absl::InlinedVector<void*, 16> out(args.out.begin(), args.out.end());
  for (size_t i = 0; i < in.size(); ++i) {
    if (!plan.in[i].low || in[i] == nullptr) continue;
    Load(in[i], at(plan.in[i]), plan.in[i].elements);
    in[i] = at(plan.in[i]);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (plan.out[i].low) out[i] = at(plan.out[i]);
  }
  EBB_RETURN_IF_ERROR(kernel.run({.in = in, .out = out, .workspace = base + plan.bytes}));
  for (size_t i = 0; i < out.size(); ++i) {
    if (plan.out[i].low) Round(at(plan.out[i]), args.out[i], plan.out[i].elements);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Kernel> MakeRounded(const graph::Graph& graph, const graph::Node& node,
                                   KernelFactory make) {
  EBB_ASSIGN_OR_RETURN(RoundedPlan plan, PlanRounded(graph, node, kAlignment));
  EBB_ASSIGN_OR_RETURN(Kernel kernel, make(*plan.shadow, plan.shadow->nodes[0]));
  const Bytes workspace = kernel.workspace + Bytes(plan.bytes);
  return Kernel{[plan = std::move(plan), kernel = std::move(kernel)](const KernelArgs& args) {
                  return RunRounded(plan, kernel, args);
                },
                workspace};
}

}  // namespace ebb::device
