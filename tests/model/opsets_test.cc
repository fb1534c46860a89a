// Every opset from 7 to 23 in its own spelling gives the same graph, and a spelling of another
// opset is refused instead of ignored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/onnx_ops.h"
#include "tests/model/onnx_builder.h"

namespace ebb {
namespace {

using graph::DType;
using graph::HostTensor;
using graph::Shape;
using ::testing::HasSubstr;
using testing::NodeOf;
using testing::OnnxBuilder;

using Ints = std::vector<int64_t>;

// `name` as an attribute before opset `since`, as input from then on.
void ListOf(OnnxBuilder& b, int opset, int since, const std::string& name, const Ints& values) {
  if (opset < since) {
    b.With(name, values);
  } else {
    auto* nodes = b.proto().mutable_graph()->mutable_node();
    nodes->Mutable(nodes->size() - 1)->add_input(name);
    b.Ints(name, values);
  }
}

class Opset : public ::testing::TestWithParam<int> {
 protected:
  // x of that shape goes into one node of `op`.
  OnnxBuilder One(const std::string& op, const Ints& shape) const {
    OnnxBuilder b(GetParam());
    b.Input("x", shape).Node(op, {"x"}, {"y"}).Output("y");
    return b;
  }
  static model::ImportedModel Import(const OnnxBuilder& b) {
    model::ImportOptions options;
    options.batch_size = 0;
    auto imported = b.Import(options);
    EXPECT_TRUE(imported.ok()) << imported.status();
    return imported.ok() ? *std::move(imported) : model::ImportedModel{};
  }
  static Shape ResultOf(const OnnxBuilder& b) {
    const auto m = Import(b);
    return m.graph.outputs.empty() ? Shape{-1} : m.graph.value(m.graph.outputs[0]).type.shape;
  }
};

TEST_P(Opset, SqueezesAndUnsqueezesTheNamedAxes) {
  OnnxBuilder squeeze = One("Squeeze", {2, 1, 3, 1});
  ListOf(squeeze, GetParam(), 13, "axes", {1});
  EXPECT_EQ(ResultOf(squeeze), Shape({2, 3, 1}));
  OnnxBuilder unsqueeze = One("Unsqueeze", {2, 3});
  ListOf(unsqueeze, GetParam(), 13, "axes", {0, 2});
  EXPECT_EQ(ResultOf(unsqueeze), Shape({1, 2, 1, 3}));
}

TEST_P(Opset, ReducesTheNamedAxes) {
  for (const auto& [op, since] :
       {std::pair{"ReduceSum", 13}, {"ReduceMean", 18}, {"ReduceMax", 18}}) {
    OnnxBuilder b = One(op, {2, 3, 4});
    ListOf(b, GetParam(), since, "axes", {1});
    b.With("keepdims", 0);
    EXPECT_EQ(ResultOf(b), Shape({2, 4})) << op;
  }
}

TEST_P(Opset, SplitsAndSlices) {
  OnnxBuilder split = One("Split", {2, 6});
  split.With("axis", 1);
  ListOf(split, GetParam(), 13, "split", {2, 4});
  split.proto().mutable_graph()->mutable_node(0)->add_output("z");
  EXPECT_EQ(ResultOf(split), Shape({2, 2}));
  OnnxBuilder slice = One("Slice", {2, 6});
  for (const auto& [name, value] : {std::pair{"starts", 1}, {"ends", 5}, {"axes", 1}}) {
    ListOf(slice, GetParam(), 10, name, {value});
  }
  EXPECT_EQ(ResultOf(slice), Shape({2, 4}));
}

TEST_P(Opset, PadsAndClips) {
  OnnxBuilder pad = One("Pad", {1, 2});
  ListOf(pad, GetParam(), 11, "pads", {0, 1, 0, 2});
  EXPECT_EQ(ResultOf(pad), Shape({1, 5}));
  OnnxBuilder clip = One("Clip", {1, 2});
  if (GetParam() < 11) {
    clip.With("max", 6.0);
  } else {
    clip.Weight("six", testing::Floats({}, {6}));
    clip.proto().mutable_graph()->mutable_node(0)->add_input("");
    clip.proto().mutable_graph()->mutable_node(0)->add_input("six");
  }
  const auto m = Import(clip);
  EXPECT_EQ(NodeOf(m.graph, "Clip").attrs.Float("max", 0), 6);
  EXPECT_FALSE(NodeOf(m.graph, "Clip").attrs.Has("min"));
}

TEST_P(Opset, DropsInTraining) {
  OnnxBuilder b = One("Dropout", {1, 8});
  if (GetParam() < 12) {
    b.With("ratio", 0.25);
  } else {
    b.Weight("ratio", testing::Floats({}, {0.25f}));
    b.Weight("on", HostTensor::Of<uint8_t>(DType::kBool, {}, {1}));
    for (const char* input : {"ratio", "on"}) {
      b.proto().mutable_graph()->mutable_node(0)->add_input(input);
    }
  }
  EXPECT_EQ(NodeOf(Import(b).graph, "Dropout").attrs.Float("ratio", 0), 0.25);
}

TEST_P(Opset, TrainsBatchNorm) {
  OnnxBuilder b(GetParam());
  b.Input("x", {2, 3, 4, 4});
  for (const char* name : {"s", "b", "m", "v"}) b.Ramp(name, {3});
  std::vector<std::string> outputs = {"y", "m2", "v2"};
  if (GetParam() < 14) outputs = {"y", "m2", "v2", "saved_m", "saved_v"};
  b.Node("BatchNormalization", {"x", "s", "b", "m", "v"}, outputs)
      .With("momentum", 0.9)
      .Output("y");
  if (GetParam() >= 14) b.With("training_mode", 1);
  EXPECT_NEAR(NodeOf(Import(b).graph, "BatchNorm").attrs.Float("momentum", 0), 0.1, 1e-6);
}

TEST_P(Opset, SoftmaxNormalisesWhatItsAxisMeant) {
  OnnxBuilder b = One("Softmax", {2, 3, 4});
  const auto m = Import(b);  // the default: 1 and everything after it, then the last axis
  EXPECT_EQ(NodeOf(m.graph, "Softmax").attrs.Int("axis", -1), GetParam() < 13 ? 1 : 2);
  EXPECT_EQ(m.graph.nodes.size(), GetParam() < 13 ? 3u : 1u);
}

TEST_P(Opset, RefusesTheSpellingOfAnother) {
  OnnxBuilder squeeze = One("Squeeze", {2, 1, 3, 1});
  ListOf(squeeze, GetParam() < 13 ? 99 : 0, 13, "axes", {1});
  EXPECT_THAT(squeeze.Error({.batch_size = 0}), HasSubstr("opset 13"));
  OnnxBuilder clip = One("Clip", {1, 2});
  if (GetParam() < 11) {
    ListOf(clip, 99, 0, "six", {6});
  } else {
    clip.With("min", 0.0);
  }
  EXPECT_THAT(clip.Error({.batch_size = 0}), HasSubstr("opset 11"));
}

INSTANTIATE_TEST_SUITE_P(All, Opset, ::testing::Range(model::kMinOpset, model::kMaxOpset + 1));

}  // namespace
}  // namespace ebb
