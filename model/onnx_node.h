// One ONNX node as the converters see it: attributes, the types of its inputs and what is known of
// their values on the host. Reading an attribute of the wrong type gives the fallback and is
// remembered in attr_status(), which the importer checks after each node.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/host_tensor.h"
#include "model/onnx_proto.h"

namespace ebb::model {

// "node 'conv1' (Conv, opset 17)"; a node without a name goes by its first output.
std::string NodeLabel(const onnx::NodeProto& proto, int opset);
// The domain without the alias "ai.onnx".
bool IsStandardDomain(absl::string_view domain);

class NodeView {
 public:
  struct Input {
    bool present = false;
    TensorType type;
    const HostTensor* host = nullptr;  // null: not known before the step runs
  };

  NodeView(const onnx::NodeProto& proto, int opset, std::vector<Input> inputs)
      : proto_(proto), opset_(opset), inputs_(std::move(inputs)) {}
  virtual ~NodeView() = default;
  NodeView(const NodeView&) = delete;
  NodeView& operator=(const NodeView&) = delete;

  const std::string& op() const { return proto_.op_type(); }
  int opset() const { return opset_; }
  const onnx::NodeProto& proto() const { return proto_; }

  size_t num_inputs() const { return inputs_.size(); }
  bool Has(size_t i) const { return i < inputs_.size() && inputs_[i].present; }
  const TensorType& type(size_t i) const { return inputs_[i].type; }
  const Shape& shape(size_t i) const { return inputs_[i].type.shape; }
  int64_t rank(size_t i) const { return static_cast<int64_t>(shape(i).size()); }
  const HostTensor* host(size_t i) const { return Has(i) ? inputs_[i].host : nullptr; }
  size_t num_outputs() const { return static_cast<size_t>(proto_.output_size()); }

  bool HasAttr(absl::string_view name) const { return FindAttr(name) != nullptr; }
  int64_t Int(absl::string_view name, int64_t fallback) const;
  double Float(absl::string_view name, double fallback) const;
  std::string Str(absl::string_view name, absl::string_view fallback) const;
  std::vector<int64_t> Ints(absl::string_view name, std::vector<int64_t> fallback = {}) const;
  std::vector<float> Floats(absl::string_view name) const;
  std::vector<std::string> Strings(absl::string_view name) const;
  const onnx::TensorProto* Tensor(absl::string_view name) const;
  const absl::Status& attr_status() const { return attr_status_; }

  // Input i on the host; Unimplemented when it is computed by the step, or a weight. `what` names
  // it.
  absl::StatusOr<const HostTensor*> Known(size_t i, absl::string_view what) const;
  absl::StatusOr<std::vector<int64_t>> KnownInts(size_t i, absl::string_view what) const;
  // What was an attribute and became input i with `input_since` is written as its opset says, so
  // that neither spelling is ignored.
  absl::Status CheckSpelling(absl::string_view name, size_t i, int input_since) const;
  // A list that was an attribute and became input i with `input_since`; empty if it is absent.
  absl::StatusOr<std::vector<int64_t>> AttrOrInput(absl::string_view name, size_t i,
                                                   int input_since) const;

  absl::Status Invalid(absl::string_view what) const;
  absl::Status Unimplemented(absl::string_view what) const;

 private:
  const onnx::AttributeProto* FindAttr(absl::string_view name) const;
  const onnx::AttributeProto* Typed(absl::string_view name, int type) const;

  const onnx::NodeProto& proto_;
  const int opset_;
  const std::vector<Input> inputs_;
  mutable absl::Status attr_status_;
};

}  // namespace ebb::model
