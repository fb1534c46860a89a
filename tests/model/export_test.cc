// Weights written back into the user's own ONNX file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/import.h"
#include "tests/model/onnx_builder.h"

namespace ebb {
namespace {

using graph::DType;
using graph::HostTensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kDynamic;
using testing::OnnxBuilder;

OnnxBuilder TwoLayers() {
  OnnxBuilder b;
  b.Input("x", {kDynamic, 2}).Ramp("w", {2, 2}).Uniform("bias", {2}, 0).Ints("axes", {1});
  b.Node("Gemm", {"x", "w", "bias"}, {"a"}, "first").Node("Identity", {"bias"}, {"same"});
  b.Node("Gemm", {"a", "w", "same"}, {"h"}, "second").Node("Squeeze", {"h"}, {"y"}).Output("y");
  b.proto().set_producer_name("a framework");
  b.proto().mutable_graph()->set_doc_string("kept");
  return b;
}

model::onnx::ModelProto Parse(const std::string& bytes) {
  model::onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(bytes));
  return model;
}

std::string ErrorOf(const std::string& bytes, const graph::TensorMap& weights) {
  const auto exported = model::ExportOnnx(bytes, weights);
  EXPECT_EQ(exported.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(exported.status().message());
}

TEST(ExportOnnx, ChangesNothingButTheWeightsGiven) {
  const std::string original = TwoLayers().Bytes();
  const auto same = model::ExportOnnx(original, {});
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(*same, original);

  const auto changed = model::ExportOnnx(original, {{"w", testing::Floats({2, 2}, {4, 3, 2, 1})}});
  ASSERT_TRUE(changed.ok()) << changed.status();
  model::onnx::ModelProto expected = Parse(original);
  const float values[] = {4, 3, 2, 1};
  expected.mutable_graph()->mutable_initializer(0)->set_raw_data(values, sizeof values);
  EXPECT_EQ(*changed, expected.SerializeAsString());
}

TEST(ExportOnnx, KeepsFieldsThatItDoesNotKnow) {
  // Field 9999, a string: what a newer version of the format might add.
  const std::string original = TwoLayers().Bytes() + std::string("\xfa\xf0\x04\x03new", 7);
  const auto exported = model::ExportOnnx(original, {});
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_THAT(*exported, HasSubstr("new"));
  EXPECT_EQ(exported->size(), original.size());
}

TEST(ExportOnnx, GivesSplitWeightsInitializersOfTheirOwn) {
  model::ImportOptions options;
  options.untie_uniform = true;
  options.batch_size = 3;
  const std::string original = TwoLayers().Bytes();
  auto imported = model::ImportOnnx(original, options);
  ASSERT_TRUE(imported.ok()) << imported.status();
  imported->weights["bias"] = testing::Floats({2}, {1, 2});
  imported->weights["bias@2"] = testing::Floats({2}, {3, 4});
  const auto exported = model::ExportOnnx(original, imported->weights);
  ASSERT_TRUE(exported.ok()) << exported.status();
  const auto again = model::ImportOnnx(*exported, {.batch_size = 3});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(again->weights.at("bias").as<float>(), ElementsAre(1, 2));
  EXPECT_THAT(again->weights.at("bias@2").as<float>(), ElementsAre(3, 4));
  EXPECT_EQ(again->graph.nodes[1].inputs[2], again->graph.Find("bias@2"));
}

TEST(ExportOnnx, BringsExternalDataIntoTheFile) {
  OnnxBuilder b = TwoLayers();
  auto* w = b.proto().mutable_graph()->mutable_initializer(0);
  w->clear_raw_data();
  w->set_data_location(model::onnx::TensorProto::EXTERNAL);
  w->add_external_data()->set_key("location");
  const auto exported =
      model::ExportOnnx(b.Bytes(), {{"w", testing::Floats({2, 2}, {1, 2, 3, 4})}});
  ASSERT_TRUE(exported.ok()) << exported.status();
  const auto model = Parse(*exported);
  EXPECT_NE(model.graph().initializer(0).data_location(), model::onnx::TensorProto::EXTERNAL);
  EXPECT_EQ(model.graph().initializer(0).raw_data().size(), 16u);
}

TEST(ExportOnnx, RefusesWeightsThatTheFileHasNotOrOtherwise) {
  const std::string original = TwoLayers().Bytes();
  EXPECT_THAT(ErrorOf(original, {{"v", testing::Floats({1}, {0})}}), HasSubstr("no weight 'v'"));
  EXPECT_THAT(ErrorOf(original, {{"bias@3", testing::Floats({2}, {0, 0})}}), HasSubstr("'bias@3'"));
  EXPECT_THAT(ErrorOf(original, {{"w", testing::Floats({4}, {0, 0, 0, 0})}}),
              HasSubstr("weight 'w' is f32[4], in the file it is f32[2,2]"));
  const auto doubles = HostTensor::Of<double>(DType::kF64, {2, 2}, {0, 0, 0, 0});
  EXPECT_THAT(ErrorOf(original, {{"w", doubles}}), HasSubstr("f64"));
  // What a node computes from data or from weights is no weight.
  EXPECT_THAT(ErrorOf(original, {{"a", testing::Floats({1, 2}, {0, 0})}}), HasSubstr("'a'"));
  EXPECT_THAT(ErrorOf(original, {{"same", testing::Floats({2}, {0, 0})}}), HasSubstr("'same'"));
  EXPECT_FALSE(model::ExportOnnx("damaged", {}).ok());
}

}  // namespace
}  // namespace ebb
