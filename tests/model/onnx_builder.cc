// ModelProto, one call at a time.
#include "tests/model/onnx_builder.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "graph/op.h"
#include "model/onnx_tensor.h"

namespace ebb::testing {

using graph::DType;
using graph::HostTensor;
using model::onnx::AttributeProto;

OnnxBuilder::OnnxBuilder(int opset) {
  proto_.set_ir_version(8);
  proto_.add_opset_import()->set_version(opset);
  proto_.mutable_graph()->set_name("test");
}

OnnxBuilder& OnnxBuilder::Input(const std::string& name, const std::vector<int64_t>& dims,
                                DType dtype) {
  auto* input = proto_.mutable_graph()->add_input();
  input->set_name(name);
  auto* type = input->mutable_type()->mutable_tensor_type();
  type->set_elem_type(model::OnnxFromDType(dtype));
  type->mutable_shape();
  for (int64_t dim : dims) {
    auto* added = type->mutable_shape()->add_dim();
    if (dim == kDynamic) {
      added->set_dim_param("N");
    } else {
      added->set_dim_value(dim);
    }
  }
  return *this;
}

OnnxBuilder& OnnxBuilder::Weight(const std::string& name, const HostTensor& tensor) {
  auto* added = proto_.mutable_graph()->add_initializer();
  added->set_name(name);
  added->set_data_type(model::OnnxFromDType(tensor.type.dtype));
  for (int64_t dim : tensor.type.shape) added->add_dims(dim);
  model::WriteTensor(tensor, added);
  return *this;
}

OnnxBuilder& OnnxBuilder::Uniform(const std::string& name, const std::vector<int64_t>& dims,
                                  float value) {
  const graph::Shape shape(dims.begin(), dims.end());
  const auto count = static_cast<size_t>(graph::NumElements(shape));
  return Weight(name, Floats(shape, std::vector<float>(count, value)));
}

OnnxBuilder& OnnxBuilder::Ramp(const std::string& name, const std::vector<int64_t>& dims) {
  const graph::Shape shape(dims.begin(), dims.end());
  std::vector<float> values(static_cast<size_t>(graph::NumElements(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.1f * static_cast<float>(i + 1);
  return Weight(name, Floats(shape, values));
}

OnnxBuilder& OnnxBuilder::Ints(const std::string& name, const std::vector<int64_t>& values) {
  return Weight(
      name, HostTensor::Of<int64_t>(DType::kI64, {static_cast<int64_t>(values.size())}, values));
}

OnnxBuilder& OnnxBuilder::Node(const std::string& op, const std::vector<std::string>& inputs,
                               const std::vector<std::string>& outputs, const std::string& name) {
  auto* node = proto_.mutable_graph()->add_node();
  node->set_op_type(op);
  node->set_name(name);
  for (const std::string& input : inputs) node->add_input(input);
  for (const std::string& output : outputs) node->add_output(output);
  return *this;
}

AttributeProto* OnnxBuilder::Attr(const std::string& name, int type) {
  auto* nodes = proto_.mutable_graph()->mutable_node();
  AttributeProto* attr = nodes->Mutable(nodes->size() - 1)->add_attribute();
  attr->set_name(name);
  attr->set_type(static_cast<AttributeProto::AttributeType>(type));
  return attr;
}

OnnxBuilder& OnnxBuilder::With(const std::string& attr, int64_t value) {
  Attr(attr, AttributeProto::INT)->set_i(value);
  return *this;
}

OnnxBuilder& OnnxBuilder::With(const std::string& attr, int value) {
  return With(attr, static_cast<int64_t>(value));
}

OnnxBuilder& OnnxBuilder::With(const std::string& attr, double value) {
  Attr(attr, AttributeProto::FLOAT)->set_f(static_cast<float>(value));
  return *this;
}

OnnxBuilder& OnnxBuilder::With(const std::string& attr, const std::vector<int64_t>& values) {
  AttributeProto* added = Attr(attr, AttributeProto::INTS);
  for (int64_t value : values) added->add_ints(value);
  return *this;
}

OnnxBuilder& OnnxBuilder::With(const std::string& attr, const char* value) {
  Attr(attr, AttributeProto::STRING)->set_s(value);
  return *this;
}

OnnxBuilder& OnnxBuilder::Output(const std::string& name) {
  proto_.mutable_graph()->add_output()->set_name(name);
  return *this;
}

std::string OnnxBuilder::Bytes() const { return proto_.SerializeAsString(); }

absl::StatusOr<model::ImportedModel> OnnxBuilder::Import(
    const model::ImportOptions& options) const {
  return model::ImportOnnx(Bytes(), options);
}

std::string OnnxBuilder::Error(const model::ImportOptions& options) const {
  const auto imported = Import(options);
  EXPECT_FALSE(imported.ok()) << "the model was imported";
  return std::string(imported.status().message());
}

HostTensor Floats(graph::Shape shape, const std::vector<float>& values) {
  return HostTensor::Of<float>(DType::kF32, std::move(shape), values);
}

std::string OpsOf(const graph::Graph& graph) {
  std::string ops;
  for (const graph::Node& node : graph.nodes) {
    absl::StrAppend(&ops, ops.empty() ? "" : " ", node.op->name);
  }
  return ops;
}

const graph::Node& NodeOf(const graph::Graph& graph, absl::string_view op) {
  const graph::Node* found = nullptr;
  for (const graph::Node& node : graph.nodes) {
    if (node.op->name == op) {
      EXPECT_EQ(found, nullptr) << "two nodes are " << op;
      found = &node;
    }
  }
  EBB_CHECK(found != nullptr);
  return *found;
}

std::string ReadBinary(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EBB_CHECK(file.good());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace ebb::testing
