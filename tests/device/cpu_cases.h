// One row a case of the comparison of `cpu` with `ref`: an op, the inputs it is given and, where
// the kernel takes channels-last operands, which ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace ebb::testing {

struct CaseInput {
  graph::TensorType type;
  double min = -1;  // random values in [min, max)
  double max = 1;
  bool absent = false;
  // The op is given them rounded to this type of 16 bits.
  std::optional<graph::DType> stored;
};

struct OpCase {
  std::string op;
  std::vector<CaseInput> inputs;
  graph::Attrs attrs;
  // Also run with these inputs converted and these outputs marked channels last.
  std::vector<size_t> last_in;
  std::vector<size_t> last_out;
};

std::vector<OpCase> CpuCases();

}  // namespace ebb::testing
