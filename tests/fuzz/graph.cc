// Serialised graphs (ebb.v1.Graph): what is accepted goes over the wire and comes back the same.
#include "graph/graph.h"

#include "daemon/wire_graph.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto graph = ebb::daemon::GraphFromBytes(ebb::fuzz::Text(data, size), 2);
  if (!graph.ok()) return 0;
  const auto again = ebb::daemon::GraphFromWire(ebb::daemon::GraphToWire(*graph), 2);
  EBB_FUZZ_CHECK(again.ok());
  EBB_FUZZ_CHECK(ebb::graph::ToText(*again) == ebb::graph::ToText(*graph));
  return 0;
}
