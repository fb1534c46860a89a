// Kernels of the CUDA device that read and write 16 bits themselves make the bits that their f32
// kernels make on copies: every op's cases of cpu_cases.h, with every choice of inputs in 16 bits
// that the op's kernel takes.
#include "device/cuda/low_storage.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "device/common/rounded.h"
#include "device/cuda/own_kernels.h"
#include "device/cuda/rounded.h"
#include "graph/op.h"
#include "tests/device/case_graph.h"
#include "tests/device/cuda_double/open_double.h"
#include "tests/testing/run_graph.h"

namespace ebb::testing {
namespace {

using device::cuda::KernelMaker;
using graph::DType;
using graph::HostTensor;

// Own kernels on copies, whatever they could do themselves.
KernelMaker OnCopies(absl::string_view op) {
  const auto make = device::cuda::FindOwnKernel(op);
  if (make == nullptr) return nullptr;
  return [make](const graph::Graph& graph, const graph::Node& node) {
    return device::TouchesLow(graph, node) ? device::cuda::MakeRounded(graph, node, make)
                                           : make(graph, node);
  };
}

CaseInput Input(const graph::Shape& shape, DType dtype = DType::kF32) { return {{dtype, shape}}; }

// Sizes around the 8 elements of 16 bytes, and many inputs.
std::vector<OpCase> OddCases() {
  std::vector<OpCase> cases;
  for (const int64_t n : {1, 7, 8, 9, 64, 1001}) {
    cases.push_back({"Relu", {Input({n})}, {}, {}, {}});
    cases.push_back({"ReluGrad", {Input({n}), Input({n})}, {}, {}, {}});
    cases.push_back({"Add", {Input({n}), Input({n})}, {}, {}, {}});
    cases.push_back({"Mul", {Input({3, n}), Input({n})}, {}, {}, {}});
    cases.push_back({"Mul", {Input({3, n}), Input({3, 1})}, {}, {}, {}});
    cases.push_back({"AddN", std::vector<CaseInput>(2, Input({n})), {}, {}, {}});
    cases.push_back({"AddN", std::vector<CaseInput>(7, Input({n})), {}, {}, {}});
    cases.push_back({"Expand", {Input({n, 1})}, {{"shape", std::vector<int64_t>{n, 8}}}, {}, {}});
    cases.push_back(
        {"Transpose", {Input({n, 24})}, {{"perm", std::vector<int64_t>{1, 0}}}, {}, {}});
    cases.push_back({"Concat", {Input({2, n}), Input({2, 8})}, {{"axis", int64_t{1}}}, {}, {}});
    cases.push_back({"SumTo", {Input({50, n})}, {{"shape", std::vector<int64_t>{n}}}, {}, {}});
  }
  return cases;
}

// The case with the inputs of `mask` in 16 bits.
OpCase WithLow(const OpCase& c, uint32_t mask, DType low) {
  OpCase result = c;
  for (size_t i = 0; i < result.inputs.size(); ++i) {
    if ((mask >> i & 1) != 0) result.inputs[i].stored = low;
  }
  return result;
}

uint32_t FloatInputs(const OpCase& c) {
  uint32_t mask = 0;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.inputs[i].absent && c.inputs[i].type.dtype == DType::kF32) mask |= 1u << i;
  }
  return mask;
}

const graph::Node& OpOf(const graph::Graph& graph) { return graph.nodes.back(); }

class CudaLowStorage : public ::testing::Test {
 protected:
  void SetUp() override {
    stored_ = OpenCudaDouble().device;
    copied_ = OpenCudaDouble({.first = OnCopies}).device;
    backwards_ = OpenCudaDouble({.api = {.loops = device::cuda::LoopOrder::kBackwards}}).device;
  }

  // body(case, graph) for all cases whose kernel takes 16 bits.
  template <class Body>
  void ForLowCases(Order order, const Body& body) {
    std::vector<OpCase> cases = CpuCases();
    const std::vector<OpCase> odd = OddCases();
    cases.insert(cases.end(), odd.begin(), odd.end());
    for (const OpCase& c : cases) {
      if (!HasOrder(c, order) || c.inputs.size() > 8) continue;
      if (device::cuda::FindOwnKernel(c.op) == nullptr) continue;  // low_products_test.cc
      const uint32_t floats = FloatInputs(c);
      for (uint32_t mask = floats; mask != 0; mask = (mask - 1) & floats) {
        for (const DType low : {DType::kBF16, DType::kF16}) {
          const OpCase with = WithLow(c, mask, low);
          const auto built = BuildCase(with, order);
          if (!built.ok() || !device::cuda::TakesLow(built->graph, OpOf(built->graph))) continue;
          SCOPED_TRACE(Describe(with, order));
          body(with, *built);
        }
      }
    }
  }

  void ExpectSameBits(device::Device& device, const OpCase& c, const CaseGraph& built,
                      Placement placement) {
    const auto want = RunGraph(*copied_, built.graph, FeedsOf(c));
    const auto got = RunGraph(device, built.graph, FeedsOf(c), placement);
    ASSERT_TRUE(want.ok()) << want.status();
    ASSERT_TRUE(got.ok()) << got.status();
    for (const std::string& name : built.results) {
      EXPECT_EQ(got->at(name).data, want->at(name).data) << name;
    }
  }

  void CompareAll(Order order, std::set<std::string>* seen) {
    ForLowCases(order, [&](const OpCase& c, const CaseGraph& built) {
      seen->insert(c.op);
      ExpectSameBits(*stored_, c, built, Placement::kSeparate);
      ExpectSameBits(*stored_, c, built, Placement::kShared);
      ExpectSameBits(*backwards_, c, built, Placement::kSeparate);
    });
  }

  std::unique_ptr<device::Device> stored_, copied_, backwards_;
};

TEST_F(CudaLowStorage, MakesTheBitsOfCopies) {
  std::set<std::string> seen;
  CompareAll(Order::kPlain, &seen);
  for (const char* op : {"Add",
                         "AddN",
                         "AveragePool",
                         "AveragePoolGrad",
                         "BatchNorm",
                         "BatchNormGrad",
                         "BatchNormInference",
                         "BatchNormInferenceGrad",
                         "Cast",
                         "Clip",
                         "ClipGrad",
                         "Concat",
                         "Dropout",
                         "DropoutGrad",
                         "Expand",
                         "Gather",
                         "GatherGrad",
                         "Gelu",
                         "GeluGrad",
                         "HardSigmoidGrad",
                         "HardSwish",
                         "HardSwishGrad",
                         "Identity",
                         "Max",
                         "MaxPool",
                         "MaxPoolGrad",
                         "Mul",
                         "Pad",
                         "Relu",
                         "ReluGrad",
                         "ReduceSum",
                         "Reshape",
                         "Scale",
                         "Sigmoid",
                         "SigmoidGrad",
                         "Silu",
                         "SiluGrad",
                         "Slice",
                         "SliceGrad",
                         "Sub",
                         "SumTo",
                         "Tanh",
                         "TanhGrad",
                         "Transpose",
                         "Where"}) {
    EXPECT_TRUE(seen.contains(op)) << op;
  }
}

TEST_F(CudaLowStorage, MakesTheBitsOfCopiesInChannelsLast) {
  std::set<std::string> seen;
  CompareAll(Order::kChannelsLast, &seen);
  for (const char* op : {"Add", "AveragePool", "BatchNorm", "BatchNormGrad", "Concat", "MaxPool",
                         "MaxPoolGrad", "ToChannelsLast", "ToPlain"}) {
    EXPECT_TRUE(seen.contains(op)) << op;
  }
}

TEST_F(CudaLowStorage, NeedsNoRoomForCopies) {
  int compared = 0;
  const auto compare = [&](const OpCase&, const CaseGraph& built) {
    const graph::Node& node = OpOf(built.graph);
    const auto plan = device::PlanRounded(built.graph, node, Bytes(256));
    ASSERT_TRUE(plan.ok()) << plan.status();
    const auto stored = stored_->Compile(built.graph);
    const auto copied = copied_->Compile(built.graph);
    ASSERT_TRUE(stored.ok()) << stored.status();
    ASSERT_TRUE(copied.ok()) << copied.status();
    EXPECT_EQ((*stored)->Workspace(node.id) + Bytes(plan->bytes), (*copied)->Workspace(node.id));
    compared += plan->bytes > 0;
  };
  ForLowCases(Order::kPlain, compare);
  EXPECT_GT(compared, 0);
}

TEST_F(CudaLowStorage, OtherMixesOfTypesRunOnCopies) {
  const auto takes = [](const OpCase& c) {
    const auto built = BuildCase(c, Order::kPlain);
    EXPECT_TRUE(built.ok()) << built.status();
    return device::cuda::TakesLow(built->graph, OpOf(built->graph));
  };
  const OpCase softmax{"Softmax", {Input({3, 4})}, {{"axis", int64_t{1}}}, {}, {}};
  EXPECT_FALSE(takes(softmax));
  EXPECT_FALSE(takes(WithLow(softmax, 1, DType::kBF16)));
  const OpCase relu{"Relu", {Input({3, 4})}, {}, {}, {}};
  EXPECT_FALSE(takes(relu));
  EXPECT_TRUE(takes(WithLow(relu, 1, DType::kF16)));
  const size_t many = device::cuda::kMaxLowInputs;
  const auto add = [](size_t count) {
    OpCase c{"AddN", std::vector<CaseInput>(count, Input({9})), {}, {}, {}};
    for (CaseInput& input : c.inputs) input.stored = DType::kBF16;
    return c;
  };
  EXPECT_TRUE(takes(add(many)));
  EXPECT_FALSE(takes(add(many + 1)));
  for (const size_t count : {many, many + 1}) {
    const auto built = BuildCase(add(count), Order::kPlain);
    ExpectSameBits(*stored_, add(count), *built, Placement::kSeparate);
  }
}

// Elements by one kernel at an address that is not a multiple of 16, as they are at one that is.
TEST_F(CudaLowStorage, TakesAddressesOfAnyElement) {
  constexpr int64_t kElements = 777;
  const CudaDouble cuda = OpenCudaDouble();
  const auto stream = cuda.api->CreateStream();
  ASSERT_TRUE(stream.ok()) << stream.status();
  for (const OpCase& c :
       {WithLow({"Gelu", {Input({kElements})}, {}, {}, {}}, 1, DType::kF16),
        WithLow({"Sub", {Input({kElements}), Input({kElements})}, {}, {}, {}}, 3, DType::kBF16),
        WithLow({"AddN", std::vector<CaseInput>(5, Input({kElements})), {}, {}, {}}, 31,
                DType::kBF16)}) {
    const auto built = BuildCase(c, Order::kPlain);
    ASSERT_TRUE(built.ok()) << built.status();
    const auto values = RunGraph(*copied_, built->graph, FeedsOf(c));
    ASSERT_TRUE(values.ok()) << values.status();
    const graph::Node& node = OpOf(built->graph);
    const auto kernel = device::cuda::FindOwnKernel(c.op)(built->graph, node);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    std::vector<std::vector<uint16_t>> memory(node.inputs.size() + 1,
                                              std::vector<uint16_t>(kElements + 1));
    std::vector<void*> in;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const HostTensor& value = values->at(built->graph.value(node.inputs[i]).name);
      std::memcpy(&memory[i][1], value.data.data(), value.data.size());
      in.push_back(&memory[i][1]);
    }
    std::vector<void*> out = {&memory.back()[1]};
    ASSERT_TRUE(kernel->enqueue({.stream = *stream}, {.in = in, .out = out}).ok());
    ASSERT_TRUE(cuda.api->Synchronize(*stream).ok());
    const HostTensor& want = values->at(built->results[0]);
    EXPECT_EQ(std::memcmp(out[0], want.data.data(), want.data.size()), 0) << c.op;
  }
  cuda.api->DestroyStream(*stream);
}

}  // namespace
}  // namespace ebb::testing
