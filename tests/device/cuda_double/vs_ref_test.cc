// Every op on the CUDA device's double against the plain loops of `ref`, in both layouts: own
// kernels run the very functors of the GPU. Ops that libraries do on the GPU are played by `cpu`,
// which shows no more than that their operands arrive.
#include <gtest/gtest.h>

#include <string>

#include "graph/op.h"
#include "tests/device/compare_case.h"
#include "tests/device/cpu_cases.h"
#include "tests/device/cuda_double/open_double.h"

namespace ebb::testing {
namespace {

class CudaDoubleVsRef : public ::testing::Test {
 protected:
  void SetUp() override {
    device_ = OpenCudaDouble().device;
    auto ref = device::OpenDevice("ref", {});
    ASSERT_TRUE(ref.ok()) << ref.status();
    ref_ = *std::move(ref);
  }
  void CompareAll(Order order) {
    int own = 0;
    for (const OpCase& c : CpuCases()) {
      if (!HasOrder(c, order)) continue;
      CompareCase(*device_, *ref_, c, order);
      own += WhoPlays(c.op) == PlayedBy::kOwnKernel;
    }
    EXPECT_GT(own, 0);
  }

  std::unique_ptr<device::Device> device_, ref_;
};

TEST_F(CudaDoubleVsRef, PlainValuesAgree) { CompareAll(Order::kPlain); }

TEST_F(CudaDoubleVsRef, ChannelsLastValuesAgree) { CompareAll(Order::kChannelsLast); }

// Threads of a GPU come in any order.
TEST_F(CudaDoubleVsRef, ElementsDoNotDependOnEachOther) {
  device_ = OpenCudaDouble({.api = {.loops = device::cuda::LoopOrder::kBackwards}}).device;
  CompareAll(Order::kPlain);
  CompareAll(Order::kChannelsLast);
}

TEST_F(CudaDoubleVsRef, EveryOpHasAKernelForTheGpu) {
  for (const graph::OpDef* op : graph::AllOps()) {
    const std::string name(op->name);
    const PlayedBy by = WhoPlays(name);
    EXPECT_TRUE(by == PlayedBy::kOwnKernel || by == PlayedBy::kCpu) << name;
  }
}

}  // namespace
}  // namespace ebb::testing
