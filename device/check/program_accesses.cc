#include "device/check/program_accesses.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/op.h"

namespace ebb::device {
namespace {

// What is left of `ranges` without `taken`; both in order of their begin.
std::vector<AddressRange> Subtract(const std::vector<AddressRange>& ranges,
                                   const std::vector<AddressRange>& taken) {
  std::vector<AddressRange> rest;
  uintptr_t done = 0;
  for (const AddressRange& range : ranges) {
    uintptr_t at = std::max(range.begin, done);
    done = std::max(done, range.end);
    for (const AddressRange& other : taken) {
      if (other.end <= at || other.begin >= range.end) continue;
      if (other.begin > at) rest.push_back({at, other.begin});
      at = other.end;
    }
    if (at < range.end) rest.push_back({at, range.end});
  }
  return rest;
}

}  // namespace

std::shared_ptr<const ProgramAccesses> ProgramAccesses::Of(const graph::Graph& graph,
                                                           const Program& program) {
  auto accesses = std::make_shared<ProgramAccesses>();
  accesses->buffers_ = graph::ComputeLiveness(graph).buffers;
  for (const graph::Node& node : graph.nodes) {
    Node out;
    out.is_view = node.op->is_view;
    out.workspace = program.Workspace(node.id);
    const auto add = [&](ValueId id, bool writes) {
      if (!id.valid()) return;
      const graph::Value& value = graph.value(id);
      out.operands.push_back({id, value.type.bytes(), writes,
                              absl::StrCat("node '", node.name, "' (", node.op->name, ") ",
                                           writes ? "writes '" : "reads '", value.name, "'")});
    };
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto& mutates = node.op->mutates;
      add(node.inputs[i], std::count(mutates.begin(), mutates.end(), static_cast<int>(i)) > 0);
    }
    for (const ValueId id : node.outputs) add(id, true);
    if (out.workspace > Bytes(0)) {
      out.operands.push_back(
          {ValueId(), out.workspace, true,
           absl::StrCat("node '", node.name, "' (", node.op->name, ") uses its workspace")});
    }
    accesses->nodes_.push_back(std::move(out));
  }
  return accesses;
}

void ProgramAccesses::ForEach(const Bindings& bindings, int first, int last, Visitor visit) const {
  for (int n = first; n <= last; ++n) {
    const Node& node = nodes_[static_cast<size_t>(n)];
    const void* viewed = nullptr;
    for (const Operand& operand : node.operands) {
      const void* address = operand.value.valid() ? bindings.values[operand.value.index()]
                                                  : bindings.workspaces[static_cast<size_t>(n)];
      if (address == nullptr) continue;
      if (node.is_view && viewed == nullptr) viewed = address;
      const bool writes = operand.writes && address != viewed;
      visit(RangeOf(address, operand.bytes), writes,
            std::shared_ptr<const std::string>(shared_from_this(), &operand.what));
    }
  }
}

std::vector<AddressRange> ProgramAccesses::Dead(const Bindings& bindings, int first,
                                                int last) const {
  std::vector<AddressRange> dead, alive;
  for (const graph::Buffer& buffer : buffers_) {
    if (buffer.first > last || buffer.last < first) continue;
    const void* address = bindings.values[buffer.values.front().index()];
    if (address == nullptr) continue;
    (buffer.last <= last ? dead : alive).push_back(RangeOf(address, buffer.bytes));
  }
  for (int n = first; n <= last; ++n) {
    const Bytes workspace = nodes_[static_cast<size_t>(n)].workspace;
    if (workspace == Bytes(0)) continue;
    dead.push_back(RangeOf(bindings.workspaces[static_cast<size_t>(n)], workspace));
  }
  const auto by_begin = [](const AddressRange& a, const AddressRange& b) {
    return a.begin < b.begin;
  };
  std::sort(dead.begin(), dead.end(), by_begin);
  std::sort(alive.begin(), alive.end(), by_begin);
  return Subtract(dead, alive);
}

}  // namespace ebb::device
