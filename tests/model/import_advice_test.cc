// Files that cannot be trained as they are: refused, or warned about, with the call of the exporter
// that makes one that can.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/training.h"
#include "model/import.h"
#include "tests/model/onnx_builder.h"

namespace ebb {
namespace {

using graph::DType;
using graph::HostTensor;
using model::ImportOptions;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::kDynamic;
using ::testing::Not;
using testing::OnnxBuilder;
using Ints = std::vector<int64_t>;

// With the input's own name.
constexpr char kTorchScript[] =
    "torch.onnx.export(model.train(), args, \"model.onnx\", dynamo=False, opset_version=17, "
    "training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, input_names=[\"x\"], "
    "dynamic_axes={\"x\": {0: \"N\"}})";
constexpr char kDynamo[] =
    "torch.onnx.export(model.train(), args, \"model.onnx\", dynamo=True, optimize=False, "
    "opset_version=18, input_names=[\"x\"], dynamic_shapes=({0: torch.export.Dim(\"N\", min=2)},))";

TEST(ImportAdvice, WarnsOfFoldedBatchNormWithTheCallThatKeepsIt) {
  OnnxBuilder b;
  b.Input("x", {1, 2, 4, 4}).Ramp("w", {2, 2, 1, 1}).Ramp("b", {2});
  b.Node("Conv", {"x", "w", "b"}, {"a"}).Node("Conv", {"a", "w", "b"}, {"y"}).Output("y");
  const auto folded = b.Import({});
  ASSERT_TRUE(folded.ok()) << folded.status();
  EXPECT_THAT(folded->warnings,
              Contains(AllOf(HasSubstr("folded it away"), HasSubstr(kTorchScript))));
  // One convolution without bias: somebody thought of batch norm.
  OnnxBuilder other;
  other.Input("x", {1, 2, 4, 4}).Ramp("w", {2, 2, 1, 1}).Ramp("b", {2});
  other.Node("Conv", {"x", "w", "b"}, {"a"}).Node("Conv", {"a", "w"}, {"y"}).Output("y");
  const auto fine = other.Import({});
  ASSERT_TRUE(fine.ok()) << fine.status();
  EXPECT_THAT(fine->warnings, Not(Contains(HasSubstr("folded it away"))));
}

OnnxBuilder Tied() {
  OnnxBuilder b;
  b.Input("x", {kDynamic, 3}).Ramp("w1", {3, 3}).Ramp("w2", {3, 3}).Uniform("bias", {3}, 0);
  b.Node("Gemm", {"x", "w1", "bias"}, {"a"}).Node("Gemm", {"a", "w2", "bias"}, {"y"}).Output("y");
  return b;
}

TEST(ImportAdvice, RefusesTiedUniformWeightsWithBothCalls) {
  EXPECT_THAT(Tied().Error(),
              AllOf(HasSubstr("'bias' is shared by 2 places"), HasSubstr(kTorchScript),
                    HasSubstr(kDynamo), HasSubstr("untie_uniform"), HasSubstr("keep_tied")));
}

TEST(ImportAdvice, KeepsWeightsSharedWhereTheJobSaysThatTheModelSharesThem) {
  ImportOptions options;
  options.keep_tied = true;
  const auto kept = Tied().Import(options);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->weights.size(), 3u);
  EXPECT_EQ(kept->graph.nodes[0].inputs[2], kept->graph.nodes[1].inputs[2]);
}

TEST(ImportAdvice, RefusesDynamicAxesOtherThanTheBatch) {
  OnnxBuilder b;
  b.Input("x", {kDynamic, kDynamic}).Node("Relu", {"x"}, {"y"}).Output("y");
  EXPECT_THAT(b.Error(),
              AllOf(HasSubstr("input 'x': axis 1 ('N') is dynamic"), HasSubstr(kTorchScript)));
  OnnxBuilder fixed;
  fixed.Input("x", {7, 2}).Node("Relu", {"x"}, {"y"}).Output("y");
  ImportOptions options;
  options.batch_size = 8;
  EXPECT_THAT(fixed.Error(options),
              AllOf(HasSubstr("a fixed batch of 7, the job asks for 8"), HasSubstr(kTorchScript)));
}

TEST(ImportAdvice, RefusesIntegerWeightsStraightAndConverted) {
  const HostTensor weights = HostTensor::Of<int32_t>(DType::kI32, {2, 2}, {1, 2, 3, 4});
  OnnxBuilder straight;
  straight.Input("x", {1, 2}).Weight("w", weights).Node("MatMul", {"x", "w"}, {"y"}, "fc");
  EXPECT_THAT(straight.Output("y").Error(),
              AllOf(HasSubstr("node 'fc'"), HasSubstr("its weights 'w' are stored as INT32"),
                    HasSubstr("model.float()"), HasSubstr(kTorchScript)));
  OnnxBuilder converted;  // weights as a quantiser stores them
  converted.Input("x", {1, 2}).Weight("w", weights).Uniform("scale", {1}, 0.5F);
  converted.Node("Cast", {"w"}, {"f"}).With("to", 1).Node("Mul", {"f", "scale"}, {"s"});
  converted.Node("Transpose", {"s"}, {"t"}).With("perm", Ints{1, 0});
  converted.Node("MatMul", {"x", "t"}, {"y"}).Output("y");
  EXPECT_THAT(converted.Error(), HasSubstr("its weights 'w' are stored as INT32"));
  OnnxBuilder packed;  // of a type that no tensor of Ebb has
  packed.Input("x", {1, 2}).Weight("w", weights).Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  packed.proto().mutable_graph()->mutable_initializer(0)->set_data_type(
      model::onnx::TensorProto::INT8);
  EXPECT_THAT(packed.Error(), HasSubstr("stored as INT8"));
}

// Indices and data of a table are no weights.
TEST(ImportAdvice, TakesIntegersWhereTheyAreNoWeights) {
  OnnxBuilder b;
  b.Input("x", {1, 2}).Weight("ids", HostTensor::Of<int64_t>(DType::kI64, {2, 2}, {0, 1, 1, 0}));
  b.Ramp("table", {2, 2}).Node("Gather", {"table", "ids"}, {"e"});
  b.Node("MatMul", {"x", "e"}, {"y"}).Output("y");
  EXPECT_TRUE(b.Import({}).ok()) << b.Import({}).status();
}

TEST(ImportAdvice, RefusesHalfPrecisionWithAdvice) {
  for (const int type : {model::onnx::TensorProto::FLOAT16, model::onnx::TensorProto::BFLOAT16}) {
    OnnxBuilder b;
    b.Input("x", {1, 2}).Ramp("w", {2, 2}).Node("MatMul", {"x", "w"}, {"y"}).Output("y");
    b.proto().mutable_graph()->mutable_initializer(0)->set_data_type(type);
    EXPECT_THAT(b.Error(),
                AllOf(HasSubstr("'w'"), HasSubstr("FLOAT16"), HasSubstr("model.float()")));
  }
}

TEST(ImportAdvice, RefusesControlFlowAndSequencesWithWhatToUseInstead) {
  for (const char* op : {"Loop", "If", "Scan"}) {
    OnnxBuilder b;
    b.Input("x", {1, 2}).Node(op, {"x"}, {"y"}, "flow").Output("y");
    EXPECT_THAT(b.Error(), AllOf(HasSubstr("'flow'"), HasSubstr("torch.export"),
                                 HasSubstr("nn.EmbeddingBag"), HasSubstr(kTorchScript)))
        << op;
  }
  OnnxBuilder sequence;
  sequence.Input("x", {1, 2}).Node("SequenceConstruct", {"x"}, {"y"}, "list").Output("y");
  EXPECT_THAT(sequence.Error(),
              AllOf(HasSubstr("'list'"), HasSubstr("torch.stack"), HasSubstr(kTorchScript)));
}

TEST(ImportAdvice, RefusesSequencesAsOutputs) {
  OnnxBuilder b;
  b.Input("x", {1, 2}).Node("SplitToSequence", {"x"}, {"y"}).Output("y");
  EXPECT_THAT(b.Error(), HasSubstr("output 'y' is a sequence"));
}

TEST(ImportAdvice, RefusesCustomDomainsWithTheCallThatNeedsNone) {
  OnnxBuilder b;
  b.Input("x", {1, 2}).Node("FusedConv", {"x"}, {"y"}).Output("y");
  b.proto().mutable_graph()->mutable_node(0)->set_domain("com.microsoft");
  EXPECT_THAT(b.Error(), AllOf(HasSubstr("domain com.microsoft"), HasSubstr(kTorchScript),
                               HasSubstr("inline_local_functions")));
}

TEST(ImportAdvice, RefusesTwoOutputsOfWhichTheJobNamesNone) {
  OnnxBuilder b;
  b.Input("x", {1, 2}).Ramp("w", {2, 2}).Node("MatMul", {"x", "w"}, {"logits"});
  b.Node("Relu", {"logits"}, {"aux"}).Output("logits").Output("aux");
  const auto model = b.Import({});
  ASSERT_TRUE(model.ok()) << model.status();
  graph::TrainingOptions options;
  const auto refused = graph::BuildTrainingGraph(model->graph, options);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(refused.status().message()),
      AllOf(HasSubstr("2 outputs"), HasSubstr("'logits', 'aux'"), HasSubstr("loss.prediction")));
  options.loss.output = "logits";
  EXPECT_TRUE(graph::BuildTrainingGraph(model->graph, options).ok());
}

}  // namespace
}  // namespace ebb
