// The bits of tensors in one number.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "graph/graph.h"

namespace ebb::graph {

// Names and data, in the order of names.
inline void AddTensors(const TensorMap& tensors, Sha256* hash) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const auto& data = tensors.at(name).data;
    hash->Update(name);
    hash->Update({reinterpret_cast<const char*>(data.data()), data.size()});
  }
}

}  // namespace ebb::graph
