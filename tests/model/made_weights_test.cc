// Weights that nodes of the ONNX file make (ConstantOfShape): trained, written back, never shared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/import.h"
#include "model/onnx_proto.h"

namespace ebb::model {
namespace {

using ::testing::HasSubstr;

onnx::NodeProto* AddNode(onnx::GraphProto* graph, const char* op,
                         const std::vector<std::string>& inputs, const char* output) {
  onnx::NodeProto* node = graph->add_node();
  node->set_op_type(op);
  for (const std::string& input : inputs) node->add_input(input);
  node->add_output(output);
  return node;
}

void AddShape(onnx::GraphProto* graph, const char* name, const std::vector<int64_t>& dims) {
  onnx::TensorProto* tensor = graph->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::INT64);
  tensor->add_dims(static_cast<int64_t>(dims.size()));
  for (int64_t dim : dims) tensor->add_int64_data(dim);
}

onnx::ModelProto Model(const char* output, const std::vector<int64_t>& input_dims) {
  onnx::ModelProto model;
  model.set_ir_version(3);
  model.add_opset_import()->set_version(9);
  onnx::ValueInfoProto* input = model.mutable_graph()->add_input();
  input->set_name("x");
  auto* type = input->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  for (int64_t dim : input_dims) type->mutable_shape()->add_dim()->set_dim_value(dim);
  model.mutable_graph()->add_output()->set_name(output);
  return model;
}

TEST(MadeWeights, AreTrainedAndWrittenBackAsInitializersThatOldFilesAlsoListAsInputs) {
  onnx::ModelProto model = Model("y", {1, 4});
  AddShape(model.mutable_graph(), "w_shape", {4, 3});
  AddNode(model.mutable_graph(), "ConstantOfShape", {"w_shape"}, "w");
  AddNode(model.mutable_graph(), "Gemm", {"x", "w"}, "y");
  auto imported = ImportOnnx(model.SerializeAsString(), {});
  ASSERT_TRUE(imported.ok()) << imported.status();
  ASSERT_EQ(imported->weights.size(), 1u);
  EXPECT_EQ(imported->graph.value(imported->graph.Find("w")).role, graph::Role::kParam);

  imported->weights.at("w").as<float>()[5] = 2.5f;
  const auto bytes = ExportOnnx(model.SerializeAsString(), imported->weights);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  onnx::ModelProto exported;
  ASSERT_TRUE(exported.ParseFromString(*bytes));
  EXPECT_EQ(exported.graph().node_size(), 1);
  ASSERT_EQ(exported.graph().input_size(), 2);
  EXPECT_EQ(exported.graph().input(1).name(), "w");

  const auto again = ImportOnnx(*bytes, {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->weights.at("w").as<float>()[5], 2.5f);
}

TEST(MadeWeights, AreRefusedAsTheStatisticsOfTwoTrainingBatchNorms) {
  onnx::ModelProto model = Model("z", {1, 2, 3, 3});
  onnx::GraphProto* graph = model.mutable_graph();
  AddShape(graph, "shape", {2});
  for (const char* name : {"s", "b", "m", "v"}) AddNode(graph, "ConstantOfShape", {"shape"}, name);
  AddNode(graph, "BatchNormalization", {"x", "s", "b", "m", "v"}, "y")->set_name("first");
  AddNode(graph, "BatchNormalization", {"y", "s", "b", "m", "v"}, "z")->set_name("second");
  const auto refused = ImportOnnx(model.SerializeAsString(), {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("'second'"));

  ImportOptions frozen;
  frozen.batch_norm = BatchNormMode::kFrozen;
  EXPECT_TRUE(ImportOnnx(model.SerializeAsString(), frozen).ok());
}

}  // namespace
}  // namespace ebb::model
