// A case of cpu_cases.h as a graph that runs: the op alone over inputs named "in0", "in1", ...
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "tests/device/cpu_cases.h"

namespace ebb::testing {

enum class Order { kPlain, kChannelsLast };

// Between orders: the op means nothing without marked values.
bool MovesOrder(const OpCase& c);
// Whether the case runs in this order.
bool HasOrder(const OpCase& c, Order order);

struct CaseGraph {
  graph::Graph graph;
  std::vector<std::string> results;  // outputs, and inputs that the op writes
};
absl::StatusOr<CaseGraph> BuildCase(const OpCase& c, Order order);
// Random values, the same each time.
graph::TensorMap FeedsOf(const OpCase& c);
std::string Describe(const OpCase& c, Order order);

}  // namespace ebb::testing
