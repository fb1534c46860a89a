// What a converter works with: the node (NodeView), its inputs as graph values, and ways to emit
// graph nodes. All converters of one import share an ImportState.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "model/host_tensor.h"
#include "model/import.h"
#include "model/onnx_node.h"

namespace ebb::model {

// What is known of one ONNX value.
struct Known {
  TensorType type;
  std::shared_ptr<const HostTensor> host;  // null: computed by the step, or a weight
  ValueId id;                              // in the graph; invalid until somebody needs it there
  // A Transpose that is made only when somebody needs it as such: MatMul and Gemm use a flag.
  ValueId source;
  std::vector<int64_t> perm;
};

struct ImportState {
  explicit ImportState(const ImportOptions& import_options)
      : options(import_options), budget(Bytes(import_options.max_constant_bytes)) {}

  const ImportOptions& options;
  HostBudget budget;
  ImportedModel result;
  absl::flat_hash_map<std::string, Known> values;                    // by ONNX name
  absl::flat_hash_map<std::string, std::vector<ValueId>> sequences;  // those of tensors
  absl::flat_hash_set<ValueId> written;   // running statistics of training batch norms
  absl::flat_hash_set<std::string> read;  // names that live nodes or the outputs read

  // The graph value of an ONNX value; makes the constant or the Transpose that it stands for.
  absl::StatusOr<ValueId> Materialize(const std::string& name);
};

class ConvertContext : public NodeView {
 public:
  // `names[i]` is the key of input i in state.values.
  ConvertContext(const onnx::NodeProto& proto, int opset, std::string label,
                 std::vector<std::string> names, std::vector<Input> inputs, ImportState* state)
      : NodeView(proto, opset, std::move(inputs)),
        label_(std::move(label)),
        names_(std::move(names)),
        state_(state) {}

  const ImportOptions& options() const { return state_->options; }
  const graph::Graph& emitted() const { return state_->result.graph; }
  const TensorType& TypeOf(ValueId id) const { return state_->result.graph.value(id).type; }
  // The graph's node that makes a value; null if there is none. Emitting moves the nodes.
  const graph::Node* Producer(ValueId id) const {
    const NodeId node = state_->result.graph.value(id).producer;
    return node.valid() ? &state_->result.graph.node(node) : nullptr;
  }

  // Input i in the graph.
  absl::StatusOr<ValueId> In(size_t i);
  // Input i, or an invalid id if it is absent.
  absl::StatusOr<ValueId> OptionalIn(size_t i);
  // Input i before a swap of its last two axes that may be left to a trans flag.
  struct Operand {
    ValueId id;
    bool transposed = false;
  };
  absl::StatusOr<Operand> InMaybeTransposed(size_t i);
  // Input i in the place of a weight or a running statistic: a constant becomes trainable, or a
  // buffer, under its ONNX name.
  absl::StatusOr<ValueId> Weight(size_t i);
  absl::StatusOr<ValueId> Statistic(size_t i);
  // Are these values written by a node already, or one value? Marks them as written.
  bool SharesStatistics(ValueId mean, ValueId var);
  // "ebb.rng", added when it is first needed.
  ValueId Rng();
  // A number that no other node of the graph has.
  int64_t Stream() const { return static_cast<int64_t>(state_->result.graph.nodes.size()); }

  // Appends a node; Emit's result is an intermediate value, Result's is output 0.
  absl::StatusOr<ValueId> Emit(absl::string_view op, std::vector<ValueId> inputs,
                               graph::Attrs attrs = {});
  absl::Status Result(absl::string_view op, std::vector<ValueId> inputs, graph::Attrs attrs = {});
  // A node of several outputs.
  absl::StatusOr<std::vector<ValueId>> EmitAll(absl::string_view op, std::vector<ValueId> inputs,
                                               graph::Attrs attrs = {});
  ValueId Constant(HostTensor tensor);
  // A zeroed host tensor out of the import's budget.
  absl::StatusOr<HostTensor> Allocate(TensorType type);

  bool Wants(size_t output) const;  // is it named and read?
  void SetOutput(size_t output, ValueId id);
  // Output 0 is a sequence; and input i as one, null if it is none.
  void SetSequence(std::vector<ValueId> parts);
  const std::vector<ValueId>* Sequence(size_t i) const;
  void SetHost(size_t output, HostTensor tensor);
  // Output 0 is input i, whatever that is; no node is made.
  void Alias(size_t input);
  void DeferTranspose(ValueId source, std::vector<int64_t> perm);
  void Warn(absl::string_view what);

 private:
  absl::StatusOr<ValueId> Promote(size_t i, graph::Role role);

  const std::string label_;
  const std::vector<std::string> names_;
  ImportState* const state_;
};

}  // namespace ebb::model
