#include "tests/device/compare_case.h"

#include <gtest/gtest.h>

#include "tests/testing/run_graph.h"

namespace ebb::testing {

using graph::HostTensor;

void CompareCase(device::Device& device, device::Device& ref, const OpCase& c, Order order) {
  SCOPED_TRACE(Describe(c, order));
  const auto plain = BuildCase(c, MovesOrder(c) ? order : Order::kPlain);
  const auto ordered = BuildCase(c, order);
  ASSERT_TRUE(plain.ok()) << plain.status();
  ASSERT_TRUE(ordered.ok()) << ordered.status();
  const graph::TensorMap feeds = FeedsOf(c);
  const auto want = RunGraph(ref, plain->graph, feeds);
  const auto got = RunGraph(device, ordered->graph, feeds);
  ASSERT_TRUE(want.ok()) << want.status();
  ASSERT_TRUE(got.ok()) << got.status();
  for (size_t i = 0; i < plain->results.size(); ++i) {
    const HostTensor& expected = want->at(plain->results[i]);
    const HostTensor& actual = got->at(ordered->results[i]);
    ASSERT_EQ(actual.type, expected.type);
    if (graph::IsFloat(expected.type.dtype)) {
      EXPECT_LE(RelativeL2(actual, expected), 1e-5) << plain->results[i];
    } else {
      EXPECT_EQ(actual.data, expected.data) << plain->results[i];
    }
  }
}

}  // namespace ebb::testing
