// Uses of every op, accepted and refused: the table that tests of the op table run over.
#pragma once

#include <string>
#include <vector>

#include "graph/op.h"

namespace ebb::graph {

struct OpCase {
  std::string op;
  std::string inputs;  // "f32[2,3] - i64[2]"; - is an absent optional input
  Attrs attrs;
  std::string outputs;  // the same of the outputs; empty when refused (or when there are none)
  std::string refused;  // what the refusal must say; empty when accepted
  // Inputs whose gradient the op's rule gives when asked; empty: none, or not differentiable.
  std::vector<size_t> grads = {};
};

std::vector<OpCase> AcceptedCases();
std::vector<OpCase> RefusedCases();

TensorType ParseType(const std::string& text);            // "f32[2,3]", "f32[]"
std::vector<std::string> Words(const std::string& text);  // split at spaces
// The case's inputs as values of a new graph; what the op mutates is a buffer, the rest an input.
std::vector<ValueId> AddInputs(Graph& graph, const OpCase& test);
std::string Describe(const OpCase& test);

}  // namespace ebb::graph
