// No kernel of `cpu` takes memory that grows with its shapes from anywhere but the plan. The
// exceptions are what oneDNN 2.6 packs the operands of its matrix products into
// (docs/device_cpu.md).
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/match.h"
#include "device/device.h"
#include "tests/device/case_graph.h"
#include "tests/device/cpu_cases.h"
#include "tests/testing/heap_watch.h"
#include "tests/testing/run_graph.h"

namespace ebb::testing {
namespace {

constexpr size_t kLimit = 1024;  // below the 4 KiB of a step, since the cases are small
constexpr size_t kLargestPacking = 256 << 10;

bool MayPack(const OpCase& c, const AllocationSite& site) {
  static const auto* const products =
      new std::set<std::string>{"MatMul", "Gemm",     "Conv", "ConvGradInput", "ConvGradWeight",
                                "Lstm",   "LstmGrad", "Gru",  "GruGrad"};
  return products->count(c.op) == 1 && site.depth > 0 &&
         absl::StartsWith(ModuleOf(site.frames[0]), "libdnnl.so") &&
         site.largest <= kLargestPacking;
}

class CpuKernels : public ::testing::TestWithParam<int> {};

TEST_P(CpuKernels, TakeTheirMemoryFromThePlan) {
  if (WhyNoHeapWatch() != nullptr) GTEST_SKIP() << WhyNoHeapWatch();
  const auto device = device::OpenDevice("cpu", {.threads_per_stream = GetParam()});
  ASSERT_TRUE(device.ok()) << device.status();
  for (const OpCase& c : CpuCases()) {
    for (const Order order : {Order::kPlain, Order::kChannelsLast}) {
      if (!HasOrder(c, order)) continue;
      SCOPED_TRACE(Describe(c, order));
      const auto built = BuildCase(c, order);
      ASSERT_TRUE(built.ok()) << built.status();
      const auto runner = GraphRunner::Make(**device, built->graph);
      ASSERT_TRUE(runner.ok()) << runner.status();
      for (const auto& [name, tensor] : FeedsOf(c)) {
        ASSERT_TRUE((*runner)->Set(name, tensor).ok());
      }
      ASSERT_TRUE((*runner)->Run().ok());
      StartHeapWatch(kLimit);
      const absl::Status status = (*runner)->Run();
      const HeapUse use = StopHeapWatch();
      EXPECT_TRUE(status.ok()) << status;
      for (const AllocationSite& site : use.sites) {
        EXPECT_TRUE(MayPack(c, site)) << Describe(site);
      }
      EXPECT_EQ(use.untracked, 0);
      EXPECT_EQ(use.map_calls, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ThreadsAStream, CpuKernels, ::testing::Values(1, 2));

}  // namespace
}  // namespace ebb::testing
