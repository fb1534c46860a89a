// The graph of one step: nodes in one fixed execution order over values whose types are all known.
// A plain struct: stages take one and return another; Verify() checks it, ToText() prints it.
// Not thread-safe to change; const access may be shared.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/ids.h"
#include "graph/attrs.h"
#include "graph/types.h"

namespace ebb::graph {

struct OpDef;  // graph/op.h

// What a value is to the step, and with that where its bytes live.
enum class Role : uint8_t {
  kActivation,  // made by a node; lives within the step (stack plan)
  kInput,       // a batch field, copied in at the step's start (stack plan)
  kParam,       // trained; resident across steps
  kOptState,    // optimizer slot of a parameter; resident; starts at zero
  kBuffer,      // running statistics; resident; carried across steps
  kConstant,    // fixed data; resident; never written
  kScalar,      // written by the host before a step: "ebb.hyper", "ebb.rng"; resident
  kMetric,      // a small result read by the host after the step; resident; made by a node
};
absl::string_view Name(Role role);
constexpr bool IsResident(Role role) { return role != Role::kActivation && role != Role::kInput; }

enum class Phase : uint8_t { kForward, kLoss, kBackward, kUpdate };
absl::string_view Name(Phase phase);

// Physical order of a rank-4 (or 3, 5) activation: plain = row-major as its shape says (N,C,H,W);
// channels last = N,H,W,C in memory while the shape still says N,C,H,W. Same number of bytes.
enum class Layout : uint8_t { kPlain, kChannelsLast };

struct Value {
  ValueId id;
  std::string name;  // unique in the graph
  TensorType type;
  Role role = Role::kActivation;
  Layout layout = Layout::kPlain;
  NodeId producer;                         // invalid unless a node makes it (kActivation, kMetric)
  std::shared_ptr<const HostTensor> data;  // kConstant only
  ValueId slot_of;                         // kOptState: the parameter it belongs to
};

struct Node {
  NodeId id;
  std::string name;  // for messages: the ONNX node's name, or the op and a number
  const OpDef* op = nullptr;
  std::vector<ValueId> inputs;  // an invalid id = an absent optional input
  std::vector<ValueId> outputs;
  Attrs attrs;
  Phase phase = Phase::kForward;
  // Backward and update nodes: the forward node whose mirrored unit they belong to.
  NodeId mirror;
};

struct Graph {
  std::vector<Value> values;     // index = ValueId
  std::vector<Node> nodes;       // index = NodeId = execution order
  std::vector<ValueId> outputs;  // what a forward graph offers (logits, ...); empty when trained

  const Value& value(ValueId id) const { return values[id.index()]; }
  Value& value(ValueId id) { return values[id.index()]; }
  const Node& node(NodeId id) const { return nodes[id.index()]; }
  Node& node(NodeId id) { return nodes[id.index()]; }

  // Appends a value without a producer. The name is made unique by a suffix if it is taken.
  ValueId AddValue(std::string name, TensorType type, Role role);
  ValueId AddConstant(std::string name, HostTensor tensor);
  // Appends a node at the end of the order; its outputs' types come from the op's shape rule and
  // are named after `name`. Errors are the shape rule's, annotated with the node's name.
  absl::StatusOr<NodeId> AddNode(absl::string_view op, std::string name,
                                 std::vector<ValueId> inputs, Attrs attrs = {},
                                 Phase phase = Phase::kForward, NodeId mirror = NodeId());
  // AddNode for ops of one output.
  absl::StatusOr<ValueId> Add(absl::string_view op, std::string name, std::vector<ValueId> inputs,
                              Attrs attrs = {}, Phase phase = Phase::kForward,
                              NodeId mirror = NodeId());
  // Gives a value another name, made unique by a suffix if it is taken.
  void Rename(ValueId id, std::string name);
  // Invalid when there is none.
  ValueId Find(absl::string_view name) const;

 private:
  std::string UniqueName(std::string name);
  absl::flat_hash_map<std::string, ValueId> by_name_;  // kept by AddValue, AddNode and Rename only
};

// Names, order, types, roles, arities and attributes are consistent: every node's inputs are made
// before it, output types are what the shape rule says, mutated inputs are resident.
// InvalidArgument names the node or value at fault.
absl::Status Verify(const Graph& graph);

// One line a value that no node makes and one a node, in the grammar of graph/text.h with types and
// phases; for `ebb explain` and tests.
std::string ToText(const Graph& graph);

// Host tensors by value name: initial weights beside a graph, results beside a job.
using TensorMap = absl::flat_hash_map<std::string, HostTensor>;

}  // namespace ebb::graph
