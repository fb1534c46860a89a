#include "device/host/rounded.h"

#include <utility>

#include "absl/container/inlined_vector.h"
#include "base/status.h"
#include "device/common/half.h"
#include "device/common/rounded.h"

namespace ebb::device {
namespace {

constexpr Bytes kAlignment(64);

template <class T>
void LoadFrom(const T* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = Widen(from[i]);
}
template <class T>
void RoundTo(const float* from, T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) Narrow(from[i], to + i);
}

void Load(const void* from, float* to, const RoundedOperand& operand) {
  if (operand.dtype == graph::DType::kBF16) {
    LoadFrom(static_cast<const Bf16*>(from), to, operand.elements);
  } else {
    LoadFrom(static_cast<const F16*>(from), to, operand.elements);
  }
}
void Round(const float* from, void* to, const RoundedOperand& operand) {
  if (operand.dtype == graph::DType::kBF16) {
    RoundTo(from, static_cast<Bf16*>(to), operand.elements);
  } else {
    RoundTo(from, static_cast<F16*>(to), operand.elements);
  }
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
    Load(in[i], at(plan.in[i]), plan.in[i]);
    in[i] = at(plan.in[i]);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (plan.out[i].low) out[i] = at(plan.out[i]);
  }
  EBB_RETURN_IF_ERROR(kernel.run({.in = in, .out = out, .workspace = base + plan.bytes}));
  for (size_t i = 0; i < out.size(); ++i) {
    if (plan.out[i].low) Round(at(plan.out[i]), args.out[i], plan.out[i]);
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
