// What the nodes of a compiled graph touch, in words and in terms of its bindings, and which bytes
// die in a launch. Immutable; may be shared between threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "device/check/access_map.h"
#include "device/device.h"
#include "graph/graph.h"
#include "graph/liveness.h"

namespace ebb::device {

class ProgramAccesses : public std::enable_shared_from_this<ProgramAccesses> {
 public:
  // `program` is only asked for its workspaces.
  static std::shared_ptr<const ProgramAccesses> Of(const graph::Graph& graph,
                                                   const Program& program);

  // Each range that the nodes first..last touch, in their order.
  using Visitor = absl::FunctionRef<void(const AddressRange& range, bool writes,
                                         const std::shared_ptr<const std::string>& what)>;
  void ForEach(const Bindings& bindings, int first, int last, Visitor visit) const;

  // The bytes that nothing after node `last` needs and that were in use for nodes first..last:
  // buffers that die there, and workspaces. Disjoint, in order of address.
  std::vector<AddressRange> Dead(const Bindings& bindings, int first, int last) const;

 private:
  struct Operand {
    ValueId value;  // invalid: the node's workspace
    Bytes bytes;
    bool writes = false;
    std::string what;
  };
  struct Node {
    std::vector<Operand> operands;
    // Its output 0 is its input 0 under another shape: nothing is written if both are one place.
    bool is_view = false;
    Bytes workspace;
  };
  std::vector<Node> nodes_;
  std::vector<graph::Buffer> buffers_;
};

}  // namespace ebb::device
