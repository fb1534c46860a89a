// What the converters of single ops refuse, and the graphs that some of them make.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "graph/op.h"
#include "model/import.h"
#include "tests/model/onnx_builder.h"

namespace ebb {
namespace {

using graph::DType;

using model::ImportOptions;
using testing::Floats;
using ::testing::HasSubstr;
using testing::OnnxBuilder;
using testing::OpsOf;

using Ints = std::vector<int64_t>;

ImportOptions Small() {
  ImportOptions options;
  options.max_constant_bytes = 1 << 20;
  options.batch_size = 0;  // as in the file
  return options;
}

struct Refused {
  const char* what;  // for messages of this test
  std::function<void(OnnxBuilder&)> build;
  const char* message;
  int opset = 18;
};

const std::vector<Refused>& RefusedNodes() {
  static const auto* const cases = new std::vector<Refused>{
      {"an equation for another number of operands",
       [](OnnxBuilder& b) {
         b.Input("x", {2, 3}).Node("Einsum", {"x"}, {"y"}).With("equation", "ij,jk->ik");
       },
       "does not fit 1 operands"},
      {"an equation of another rank",
       [](OnnxBuilder& b) {
         b.Input("x", {2, 3}).Node("Einsum", {"x"}, {"y"}).With("equation", "ijk->i");
       },
       "does not fit operand 0"},
      {"an output axis of nothing",
       [](OnnxBuilder& b) {
         b.Input("x", {2, 3}).Node("Einsum", {"x"}, {"y"}).With("equation", "ij->ik");
       },
       "makes an axis of nothing"},
      {"an output axis twice",
       [](OnnxBuilder& b) {
         b.Input("x", {2, 3}).Node("Einsum", {"x"}, {"y"}).With("equation", "ij->ii");
       },
       "makes an axis twice"},
      {"a letter of two sizes",
       [](OnnxBuilder& b) {
         b.Input("x", {2, 3}).Input("z", {2, 4}).Node("Einsum", {"x", "z"}, {"y"});
         b.With("equation", "ij,ij->i");
       },
       "has two sizes"},
      {"digits in an equation",
       [](OnnxBuilder& b) {
         b.Input("x", {2, 3}).Node("Einsum", {"x"}, {"y"}).With("equation", "i1->i");
       },
       "is no term of an equation"},
      {"scales that are not above 0",
       [](OnnxBuilder& b) {
         b.Input("x", {1, 1, 2, 2}).Weight("s", Floats({4}, {1, 1, -2, 2}));
         b.Node("Resize", {"x", "", "s"}, {"y"});
       },
       "it must be above 0"},
      {"scales beyond all bounds",
       [](OnnxBuilder& b) {
         b.Input("x", {1, 1, 2, 2}).Weight("s", Floats({4}, {1, 1, 1e30F, 2}));
         b.Node("Resize", {"x", "", "s"}, {"y"});
       },
       "it must be above 0"},
      {"scales that leave nothing",
       [](OnnxBuilder& b) {
         b.Input("x", {1, 1, 2, 2}).Weight("s", Floats({4}, {1, 1, 0.25, 1}));
         b.Node("Resize", {"x", "", "s"}, {"y"});
       },
       "axis 2 would have 0 positions"},
      {"sizes beyond the budget",
       [](OnnxBuilder& b) {
         b.Input("x", {1, 1, 2, 2}).Ints("n", {1, 1, 1 << 30, 2});
         b.Node("Resize", {"x", "", "", "n"}, {"y"});
       },
       "needs more than"},
      {"weights beyond the budget",
       [](OnnxBuilder& b) {
         b.Input("x", {1, 1, 2, 40000}).Ints("n", {1, 1, 2, 80000});
         b.Node("Resize", {"x", "", "", "n"}, {"y"}).With("mode", "linear");
       },
       "needs more than"},
      {"sizes for other axes",
       [](OnnxBuilder& b) {
         b.Input("x", {1, 1, 2, 2}).Ints("n", {4, 4});
         b.Node("Resize", {"x", "", "", "n"}, {"y"});
       },
       "sizes has 2 numbers for 4 axes"},
      {"an unknown mode of resizing",
       [](OnnxBuilder& b) {
         b.Input("x", {1, 1, 2, 2}).Ints("n", {1, 1, 4, 4});
         b.Node("Resize", {"x", "", "", "n"}, {"y"}).With("mode", "lanczos");
       },
       "mode 'lanczos' is unknown"},
      {"pads by reflection beyond the budget",
       [](OnnxBuilder& b) {
         b.Input("x", {1, 4}).Ints("p", {0, 1 << 30, 0, 0});
         b.Node("Pad", {"x", "p"}, {"y"}).With("mode", "reflect");
       },
       "needs more than"},
      {"pads that cut more than there is",
       [](OnnxBuilder& b) {
         b.Input("x", {1, 4}).Ints("p", {0, -5, 0, 0});
         b.Node("Pad", {"x", "p"}, {"y"}).With("mode", "edge");
       },
       "do not fit axis 1"},
      {"a block of no size",
       [](OnnxBuilder& b) {
         b.Input("x", {1, 4, 2, 2}).Node("DepthToSpace", {"x"}, {"y"}).With("blocksize", 0);
       },
       "blocksize 0 does not divide"},
      {"a block whose square is too large",
       [](OnnxBuilder& b) {
         b.Input("x", {1, 4, 2, 2}).Node("DepthToSpace", {"x"}, {"y"});
         b.With("blocksize", int64_t{1} << 32);
       },
       "does not divide"},
      {"a depth beyond the budget",
       [](OnnxBuilder& b) {
         b.Input("x", {2}, DType::kI64).Ints("d", {int64_t{1} << 60});
         b.Weight("v", Floats({2}, {0, 1})).Node("OneHot", {"x", "d", "v"}, {"y"});
       },
       "too large"},
      {"a depth of nothing",
       [](OnnxBuilder& b) {
         b.Input("x", {2}, DType::kI64).Ints("d", {0});
         b.Weight("v", Floats({2}, {0, 1})).Node("OneHot", {"x", "d", "v"}, {"y"});
       },
       "it must be at least 1"},
      {"more of the largest than there are",
       [](OnnxBuilder& b) {
         b.Input("x", {2, 3}).Ints("k", {4}).Node("TopK", {"x", "k"}, {"y", "i"});
       },
       "has no more than 3"},
      {"a k as attribute that is an input",
       [](OnnxBuilder& b) {
         b.Input("x", {2, 3}).Node("TopK", {"x"}, {"y", "i"}).With("k", 2);
       },
       "k is input 1 since opset 10"},
      {"transposed strides that overflow",
       [](OnnxBuilder& b) {
         b.Input("x", {1, 2, 1 << 30}).Ramp("w", {2, 1, 1});
         b.Node("ConvTranspose", {"x", "w"}, {"y"}).With("strides", Ints{(int64_t{1} << 31) - 1});
       },
       "do not fit the data"},
      {"transposed pads that leave nothing",
       [](OnnxBuilder& b) {
         b.Input("x", {1, 2, 3}).Ramp("w", {2, 1, 3});
         b.Node("ConvTranspose", {"x", "w"}, {"y"}).With("pads", Ints{5, 5});
       },
       "do not fit the data"},
      {"groups that do not divide",
       [](OnnxBuilder& b) {
         b.Input("x", {2, 6, 4}).Ramp("s", {6}).Ramp("b", {6});
         b.Node("GroupNormalization", {"x", "s", "b"}, {"y"}).With("num_groups", 4);
       },
       "groups=4 must divide", 21},
      {"no groups",
       [](OnnxBuilder& b) {
         b.Input("x", {2, 6, 4}).Ramp("s", {6}).Ramp("b", {6});
         b.Node("GroupNormalization", {"x", "s", "b"}, {"y"});
       },
       "groups is 0", 21},
      {"a cache of keys and values",
       [](OnnxBuilder& b) {
         b.Input("q", {1, 2, 3, 4}).Input("p", {1, 2, 5, 4});
         b.Node("Attention", {"q", "q", "q", "", "p", "p"}, {"y"});
       },
       "export without a cache", 23},
      {"heads that do not divide",
       [](OnnxBuilder& b) {
         b.Input("q", {1, 3, 8}).Node("Attention", {"q", "q", "q"}, {"y"});
         b.With("q_num_heads", 3).With("kv_num_heads", 2);
       },
       "q_num_heads is 3, it must divide", 23},
      {"keys of another size",
       [](OnnxBuilder& b) {
         b.Input("q", {1, 2, 3, 4}).Input("k", {1, 2, 3, 5});
         b.Node("Attention", {"q", "k", "q"}, {"y"});
       },
       "do not fit", 23},
      {"a probability that is data",
       [](OnnxBuilder& b) { b.Input("x", {3}).Node("Bernoulli", {"x"}, {"y"}); },
       "the probability"},
  };
  return *cases;
}

TEST(ImportOps, RefuseWithTheReason) {
  for (const Refused& test : RefusedNodes()) {
    SCOPED_TRACE(test.what);
    OnnxBuilder b(test.opset);
    test.build(b);
    EXPECT_THAT(b.Output("y").Error(Small()), HasSubstr(test.message));
  }
}

// The ops that a node becomes.
std::string Made(const std::function<void(OnnxBuilder&)>& build, int opset = 18) {
  OnnxBuilder b(opset);
  build(b);
  const auto imported = b.Output("y").Import(Small());
  EXPECT_TRUE(imported.ok()) << imported.status();
  return imported.ok() ? OpsOf(imported->graph) : "";
}

TEST(ImportOps, WholeMultiplesOfNearestAreOneExpand) {
  EXPECT_EQ(Made([](OnnxBuilder& b) {
              b.Input("x", {1, 3, 4, 4}).Weight("s", Floats({4}, {1, 1, 2, 2}));
              b.Node("Resize", {"x", "", "s"}, {"y"});
              b.With("coordinate_transformation_mode", "asymmetric").With("nearest_mode", "floor");
            }),
            "Reshape Expand Reshape");
}

TEST(ImportOps, AnEquationInTheOrderOfAProductNeedsNoTranspose) {
  EXPECT_EQ(Made([](OnnxBuilder& b) {
              b.Input("q", {2, 4, 5, 8}).Input("k", {2, 4, 6, 8});
              b.Node("Einsum", {"q", "k"}, {"y"}).With("equation", "bhqd,bhkd->bhqk");
            }),
            "Reshape Reshape MatMul Reshape");
}

TEST(ImportOps, SharedHeadsOfKeysAreNotRepeated) {
  EXPECT_EQ(Made(
                [](OnnxBuilder& b) {
                  b.Input("q", {2, 8, 5, 4}).Input("k", {2, 2, 6, 4});
                  b.Node("Attention", {"q", "k", "k"}, {"y"});
                },
                23),
            "Reshape Scale Reshape MatMul Reshape Softmax Reshape Reshape MatMul Reshape");
}

// Exporters write ones and zeros for a layer without weights; dynamo's have the shape of the data.
TEST(ImportOps, ConstantsOfAnInstanceNormStayConstants) {
  for (const bool of_data : {false, true}) {
    OnnxBuilder b;
    b.Input("x", {2, 3, 4}).Ints("shape", of_data ? Ints{2, 3, 4} : Ints{3});
    for (const char* name : {"ones", "zeros"}) {
      b.Node("ConstantOfShape", {"shape"}, {name});
      auto* node = b.proto().mutable_graph()->mutable_node(b.proto().graph().node_size() - 1);
      auto* value = node->add_attribute();
      value->set_name("value");
      value->set_type(model::onnx::AttributeProto::TENSOR);
      value->mutable_t()->add_dims(1);
      value->mutable_t()->set_data_type(model::onnx::TensorProto::FLOAT);
      value->mutable_t()->add_float_data(name[0] == 'o' ? 1.0F : 0.0F);
    }
    b.Node("InstanceNormalization", {"x", "ones", "zeros"}, {"y"}).Output("y");
    const auto imported = b.Import(Small());
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_TRUE(imported->weights.empty());
    EXPECT_EQ(testing::NodeOf(imported->graph, "GroupNorm").attrs.Int("groups", 0), 3);
  }
}

// A batch norm of weights, whose statistics are no state (standardised convolutions).
TEST(ImportOps, ABatchNormWithoutRunningStatisticsHasNone) {
  for (const int64_t batch : {1, 2}) {
    OnnxBuilder b;
    b.Input("x", {batch, 3, 4}).Ramp("scale", {3}).Ramp("bias", {3});
    b.Node("ReduceMean", {"x"}, {"m"}).With("axes", Ints{0, 2}).With("keepdims", 0);
    b.Node("Mul", {"m", "m"}, {"v"});
    b.Node("BatchNormalization", {"x", "scale", "bias", "m", "v"}, {"y"});
    b.With("training_mode", 1).Output("y");
    const auto imported = b.Import(Small());
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_THAT(OpsOf(imported->graph), ::testing::EndsWith(batch == 1 ? "GroupNorm" : "Mul Add"));
  }
}

// PyTorch's attention writes zeros where all keys are masked: so does the softmax, in one node.
TEST(ImportOps, ASoftmaxWithoutNansIsOneNode) {
  OnnxBuilder b;
  b.Input("x", {2, 3}).Ints("one", {1}).Node("ConstantOfShape", {"one"}, {"zero"});
  b.Node("Softmax", {"x"}, {"s"}).With("axis", -1).Node("IsNaN", {"s"}, {"nan"});
  b.Node("Where", {"nan", "zero", "s"}, {"y"}).Output("y");
  const auto imported = b.Import(Small());
  ASSERT_TRUE(imported.ok()) << imported.status();
  const graph::Graph& graph = imported->graph;
  const graph::Node& node = graph.node(graph.value(graph.outputs[0]).producer);
  EXPECT_EQ(node.op->name, "Softmax");
  EXPECT_EQ(node.attrs.Int("zero_masked", 0), 1);
}

TEST(ImportOps, StochasticDepthIsADropoutOfOnes) {
  OnnxBuilder b;
  b.Input("x", {2, 3}).Weight("p", Floats({2, 1}, {0.75F, 0.75F}));
  b.Node("Bernoulli", {"p"}, {"kept"}).Node("Mul", {"x", "kept"}, {"y"}).Output("y");
  const auto imported = b.Import(Small());
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(OpsOf(imported->graph), "Dropout Scale Mul");
  EXPECT_EQ(testing::NodeOf(imported->graph, "Dropout").attrs.Float("ratio", 0), 0.25);
}

}  // namespace
}  // namespace ebb
