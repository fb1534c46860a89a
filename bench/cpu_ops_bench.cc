// How fast the cpu device's kernels are: one op a benchmark, launched on a stream as the engine
// does. "GFLOPS" counts a multiply-add as two; "GB/s" counts every operand once.
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "benchmark/benchmark.h"
#include "device/device.h"
#include "graph/op.h"

namespace ebb {
namespace {

using graph::Attrs;
using graph::DType;
using graph::Graph;
using graph::Layout;
using graph::Role;
using graph::Shape;
using Ints = std::vector<int64_t>;

// A graph of one node with memory for everything.
class OneOp {
 public:
  OneOp(absl::string_view op, const std::vector<Shape>& inputs, const Attrs& attrs, Layout layout,
        const std::vector<Role>& roles = {}) {
    device_ = *device::OpenDevice("cpu", {});
    std::vector<ValueId> ids;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Role role = i < roles.size() ? roles[i] : Role::kInput;
      ids.push_back(graph_.AddValue(absl::StrCat("in", i), {DType::kF32, inputs[i]}, role));
    }
    const auto node = graph_.AddNode(op, "op", ids, attrs);
    EBB_CHECK(node.ok());
    for (graph::Value& value : graph_.values) {
      if (value.type.shape.size() == 4 && value.role != Role::kParam) value.layout = layout;
    }
    // Weights and their gradients are always plain.
    const ValueId out = graph_.node(*node).outputs[0];
    if (op == "ConvGradWeight") graph_.value(out).layout = Layout::kPlain;
    if (op == "ToChannelsLast") graph_.value(out).layout = Layout::kChannelsLast;
    program_ = *device_->Compile(graph_);
    for (const graph::Value& value : graph_.values) {
      bindings_.values.push_back(Allocate(value.type.bytes()));
      auto* data = static_cast<float*>(bindings_.values.back());
      if (value.type.dtype != DType::kF32) continue;
      for (int64_t i = 0; i < graph::NumElements(value.type.shape); ++i) {
        data[i] = static_cast<float>(i % 17) * 0.1f + 0.1f;
      }
    }
    bindings_.workspaces.push_back(Allocate(program_->Workspace(NodeId(0))));
    stream_ = device_->CreateStream();
  }
  ~OneOp() {
    device_->DestroyStream(stream_);
    for (void* memory : memory_) std::free(memory);
  }
  OneOp(const OneOp&) = delete;
  OneOp& operator=(const OneOp&) = delete;

  void Run(benchmark::State& state) {
    for (auto _ : state) {
      device_->Launch(stream_, {program_.get(), &bindings_, 0, 0});
      device_->Synchronize(stream_);
    }
    const graph::OpCost cost = graph::CostOf(graph_, graph_.nodes[0]);
    const auto runs = static_cast<double>(state.iterations());
    using benchmark::Counter;
    state.counters["GFLOPS"] =
        Counter(static_cast<double>(cost.flops.count()) * runs * 1e-9, Counter::kIsRate);
    state.counters["GB/s"] =
        Counter(static_cast<double>(cost.bytes.count()) * runs * 1e-9, Counter::kIsRate);
  }

 private:
  void* Allocate(Bytes bytes) {
    const auto size = static_cast<size_t>(AlignUp(bytes + Bytes(1), Bytes(64)).count());
    memory_.push_back(std::aligned_alloc(64, size));
    std::memset(memory_.back(), 0, size);
    return memory_.back();
  }

  std::unique_ptr<device::Device> device_;
  Graph graph_;
  std::unique_ptr<device::Program> program_;
  device::Bindings bindings_;
  device::StreamId stream_;
  std::vector<void*> memory_;
};

struct ConvShape {
  int64_t n, c, hw, m, k, stride, groups;
};
const ConvShape kConvs[] = {
    {64, 1, 8, 16, 3, 1, 1},     {64, 16, 8, 32, 3, 1, 1},   {64, 32, 8, 64, 3, 1, 1},
    {16, 64, 56, 64, 3, 1, 1},   {16, 64, 56, 256, 1, 1, 1}, {16, 256, 28, 64, 1, 1, 1},
    {16, 256, 56, 128, 1, 2, 1}, {16, 512, 7, 512, 3, 1, 1}, {16, 96, 28, 96, 3, 1, 96},
};

void Conv(benchmark::State& state, const std::string& op, Layout layout) {
  const ConvShape s = kConvs[state.range(0)];
  const int64_t pad = s.k / 2;
  const int64_t out = (s.hw + 2 * pad - s.k) / s.stride + 1;
  const Ints pads = {pad, pad, pad, pad};
  Attrs attrs = {{"strides", Ints{s.stride, s.stride}},
                 {"pads", pads},
                 {"dilations", Ints{1, 1}},
                 {"groups", s.groups}};
  const Shape x = {s.n, s.c, s.hw, s.hw};
  const Shape w = {s.m, s.c / s.groups, s.k, s.k};
  const Shape y = {s.n, s.m, out, out};
  std::vector<Shape> inputs = {x, w};
  std::vector<Role> roles = {Role::kInput, Role::kParam};
  if (op == "ConvGradInput") {
    inputs[0] = y;
    attrs.Set("input_shape", Ints(x.begin(), x.end()));
  } else if (op == "ConvGradWeight") {
    inputs = {y, x};
    roles = {};
    attrs.Set("weight_shape", Ints(w.begin(), w.end()));
  }
  state.SetLabel(absl::StrCat("n", s.n, " c", s.c, " ", s.hw, "x", s.hw, " m", s.m, " k", s.k, " s",
                              s.stride, " g", s.groups));
  OneOp(op, inputs, attrs, layout, roles).Run(state);
}

void Gemm(benchmark::State& state) {
  const Shape a = {state.range(0), state.range(2)};
  const Shape b = {state.range(1), state.range(2)};
  OneOp("Gemm", {a, b, Shape{state.range(1)}}, {{"trans_b", int64_t{1}}}, Layout::kPlain)
      .Run(state);
}

void BatchNorm(benchmark::State& state, Layout layout) {
  const Shape x = {state.range(0), state.range(1), state.range(2), state.range(2)};
  const Shape c = {state.range(1)};
  OneOp("BatchNorm", {x, c, c, c, c}, {}, layout,
        {Role::kInput, Role::kParam, Role::kParam, Role::kBuffer, Role::kBuffer})
      .Run(state);
}

void BatchNormGrad(benchmark::State& state, Layout layout) {
  const Shape x = {state.range(0), state.range(1), state.range(2), state.range(2)};
  const Shape c = {state.range(1)};
  OneOp("BatchNormGrad", {x, x, c, c, c}, {}, layout).Run(state);
}

void ToChannelsLast(benchmark::State& state) {
  const Shape x = {state.range(0), state.range(1), state.range(2), state.range(2)};
  OneOp("ToChannelsLast", {x}, {}, Layout::kPlain).Run(state);
}

void Unary(benchmark::State& state, const char* op) {
  OneOp(op, {Shape{state.range(0)}}, {}, Layout::kPlain).Run(state);
}

void Pool(benchmark::State& state, Layout layout) {
  const Shape x = {state.range(0), state.range(1), state.range(2), state.range(2)};
  OneOp("MaxPool", {x},
        {{"kernel", Ints{2, 2}},
         {"strides", Ints{2, 2}},
         {"pads", Ints{0, 0, 0, 0}},
         {"dilations", Ints{1, 1}}},
        layout)
      .Run(state);
}

// Steps, sequences, hidden units.
void Lstm(benchmark::State& state, bool backward) {
  const int64_t hidden = state.range(2);
  const Shape wide = {state.range(0), state.range(1), 4 * hidden};
  const Shape states = {state.range(0), state.range(1), hidden}, r = {4 * hidden, hidden};
  const Attrs attrs = {{"gates", "ifco"}};
  if (backward) {
    OneOp("LstmGrad", {wide, states, states, r, states}, attrs, Layout::kPlain).Run(state);
  } else {
    OneOp("Lstm", {wide, r}, attrs, Layout::kPlain).Run(state);
  }
}

constexpr Layout kLast = Layout::kChannelsLast;
constexpr Layout kPlain = Layout::kPlain;
constexpr int kLastConv = static_cast<int>(std::size(kConvs)) - 1;

BENCHMARK_CAPTURE(Conv, forward_plain, "Conv", kPlain)->DenseRange(0, kLastConv)->UseRealTime();
BENCHMARK_CAPTURE(Conv, forward_last, "Conv", kLast)->DenseRange(0, kLastConv)->UseRealTime();
BENCHMARK_CAPTURE(Conv, input_plain, "ConvGradInput", kPlain)
    ->DenseRange(0, kLastConv)
    ->UseRealTime();
BENCHMARK_CAPTURE(Conv, input_last, "ConvGradInput", kLast)
    ->DenseRange(0, kLastConv)
    ->UseRealTime();
BENCHMARK_CAPTURE(Conv, weight_plain, "ConvGradWeight", kPlain)
    ->DenseRange(0, kLastConv)
    ->UseRealTime();
BENCHMARK_CAPTURE(Conv, weight_last, "ConvGradWeight", kLast)
    ->DenseRange(0, kLastConv)
    ->UseRealTime();
BENCHMARK(Gemm)
    ->Args({1, 10, 16})
    ->Args({8, 16, 16})
    ->Args({32, 10, 84})
    ->Args({32, 128, 784})
    ->Args({256, 512, 512})
    ->Args({1024, 1024, 1024})
    ->UseRealTime();
BENCHMARK_CAPTURE(BatchNorm, plain, kPlain)->Args({64, 32, 8})->Args({16, 64, 56})->UseRealTime();
BENCHMARK_CAPTURE(BatchNorm, last, kLast)->Args({64, 32, 8})->Args({16, 64, 56})->UseRealTime();
BENCHMARK_CAPTURE(BatchNormGrad, plain, kPlain)
    ->Args({64, 32, 8})
    ->Args({16, 64, 56})
    ->UseRealTime();
BENCHMARK_CAPTURE(BatchNormGrad, last, kLast)->Args({64, 32, 8})->Args({16, 64, 56})->UseRealTime();
BENCHMARK_CAPTURE(Pool, plain, kPlain)->Args({64, 32, 8})->Args({16, 64, 56})->UseRealTime();
BENCHMARK_CAPTURE(Pool, last, kLast)->Args({64, 32, 8})->Args({16, 64, 56})->UseRealTime();
BENCHMARK(ToChannelsLast)->Args({64, 32, 8})->Args({16, 64, 56})->Args({16, 3, 224})->UseRealTime();
BENCHMARK_CAPTURE(Lstm, forward, false)->Args({35, 20, 200})->Args({35, 20, 650})->UseRealTime();
BENCHMARK_CAPTURE(Lstm, backward, true)->Args({35, 20, 200})->Args({35, 20, 650})->UseRealTime();
BENCHMARK_CAPTURE(Unary, relu, "Relu")->Arg(1 << 12)->Arg(1 << 20)->UseRealTime();
BENCHMARK_CAPTURE(Unary, gelu, "Gelu")->Arg(1 << 12)->Arg(1 << 20)->UseRealTime();

}  // namespace
}  // namespace ebb

BENCHMARK_MAIN();
