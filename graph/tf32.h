// TF32: products and convolutions of f32 whose factors a device may round to ten bits of fraction,
// where it has hardware for that; sums stay f32. A property of nodes (the attribute tf32), so that
// it comes with them into gradients, recomputation, parts of a graph and their hashes.
#pragma once

#include "graph/graph.h"

namespace ebb::graph {

// Allows it to every matrix product and convolution of f32 in a forward graph; their gradients take
// it over. Recurrent layers stay strict.
Graph AllowTf32(Graph forward);

}  // namespace ebb::graph
