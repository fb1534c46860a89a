// Which tables the columns of an input index: a model of several embeddings takes the rows of each
// from a column of one input.
#pragma once

#include <vector>

#include "data/dataset.h"
#include "graph/graph.h"

namespace ebb::runtime {

// One entry for every look-up whose indices are a slice along axis 1 of `input`, or of a part of
// the batch of it.
std::vector<data::ColumnTable> ColumnTablesOf(const graph::Graph& graph, ValueId input);

}  // namespace ebb::runtime
