// One pass over a parameter, its gradient and its state, with the moving average where one is kept.
// Rates and step numbers are read from the device's memory, so that an update that was captured in
// a graph follows them.
#pragma once

#include "base/status.h"
#include "device/cuda/sweep.h"
#include "device/math/update.h"

namespace ebb::device::cuda {

// A Rule has
//   struct Now;                            trivially copyable, at most 64 bytes
//   Now At(const double* hyper) const;
//   void operator()(const Now& now, float& p, float g, float& state...) const;
//   static constexpr bool kCostly;         At() is worth a kernel of one thread

namespace internal {

template <class Rule>
struct ReadNow {
  using Uniform = typename Rule::Now;
  EBB_INLINE Uniform Read() const { return Rule::kCostly ? *now : rule.At(hyper); }
  template <class... State>
  EBB_INLINE void operator()(const Uniform& uniform, float& p, float g, State&... state) const {
    rule(uniform, p, g, state...);
  }
  Rule rule;
  const double* hyper;
  const Uniform* now;
};

template <class Rule>
struct WriteNow {
  EBB_INLINE void operator()(int64_t) const { *now = rule.At(hyper); }
  Rule rule;
  const double* hyper;
  typename Rule::Now* now;
};

template <class Rule>
struct WithAverage {
  struct Uniform {
    typename Rule::Now now;
    bool first;
  };
  EBB_INLINE Uniform Read() const { return {update.Read(), update.hyper[1] <= 1}; }
  template <class... State>
  EBB_INLINE void operator()(const Uniform& uniform, float& ema, float& p, float g,
                             State&... state) const {
    update(uniform.now, p, g, state...);
    average(uniform.first, ema, p);
  }
  ReadNow<Rule> update;
  math::MovingAverage average;
};

}  // namespace internal

// (param, grad, hyper, ...): `state` are the operands that the rule changes; operand `ema` the
// average, where the node has one.
template <class Rule, size_t... kState>
absl::StatusOr<CudaKernel> FusedUpdate(const Graph& graph, const Node& node, const Rule& rule,
                                       size_t ema, std::index_sequence<kState...>) {
  using Now = typename Rule::Now;
  if (const DType dtype = In(graph, node, 0).type.dtype; dtype != DType::kF32) {
    return BadType(node, dtype);
  }
  const int64_t n = NumElements(In(graph, node, 0).type.shape);
  const bool has_average = HasInput(node, ema);
  const math::MovingAverage average(node.attrs);
  const auto run = [=](const Launch& at, const KernelArgs& args) -> absl::Status {
    const auto* hyper = InPtr<double>(args, 2);
    auto* const now = static_cast<Now*>(args.workspace);
    if constexpr (Rule::kCostly) {
      EBB_RETURN_IF_ERROR(ForEach(at, 1, internal::WriteNow<Rule>{rule, hyper, now}));
    }
    const internal::ReadNow<Rule> update{rule, hyper, now};
    auto* const p = MutablePtr<float>(args, 0);
    const auto* g = InPtr<float>(args, 1);
    if (!has_average) return Sweep(at, n, update, p, g, MutablePtr<float>(args, kState)...);
    return Sweep(at, n, internal::WithAverage<Rule>{update, average}, MutablePtr<float>(args, ema),
                 p, g, MutablePtr<float>(args, kState)...);
  };
  return MakeCudaKernel(run, Bytes(Rule::kCostly ? 64 : 0));
}

}  // namespace ebb::device::cuda
