// What the importer makes of each spelling of an op, of batches, weights and shape arithmetic, and
// what it says when it refuses.
#include "model/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/onnx_builder.h"

namespace ebb {
namespace {

using graph::DType;
using graph::HostTensor;
using graph::Role;
using graph::Shape;
using model::BatchNormMode;
using model::ImportOptions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kDynamic;
using testing::NodeOf;
using testing::OnnxBuilder;
using testing::OpsOf;
using ::testing::UnorderedElementsAre;

using Ints = std::vector<int64_t>;

ImportOptions Batch(int64_t size) {
  ImportOptions options;
  options.batch_size = size;
  return options;
}

model::ImportedModel MustImport(const OnnxBuilder& builder, const ImportOptions& options = {}) {
  auto imported = builder.Import(options);
  EXPECT_TRUE(imported.ok()) << imported.status();
  return imported.ok() ? *std::move(imported) : model::ImportedModel{};
}

OnnxBuilder Linear() {
  OnnxBuilder b;
  b.Input("x", {kDynamic, 4}).Ramp("fc.weight", {3, 4}).Ramp("fc.bias", {3});
  b.Node("Gemm", {"x", "fc.weight", "fc.bias"}, {"logits"}).With("transB", 1).Output("logits");
  return b;
}

TEST(Import, BindsTheBatchAndKeepsParameterNames) {
  const auto m = MustImport(Linear(), Batch(8));
  EXPECT_EQ(OpsOf(m.graph), "Gemm");
  EXPECT_EQ(m.graph.value(m.graph.Find("x")).type.shape, Shape({8, 4}));
  EXPECT_EQ(m.graph.value(m.graph.Find("fc.weight")).role, Role::kParam);
  EXPECT_EQ(m.weights.at("fc.bias").type.shape, Shape({3}));
  ASSERT_EQ(m.graph.outputs.size(), 1u);
  EXPECT_EQ(m.graph.value(m.graph.outputs[0]).name, "logits");
  EXPECT_EQ(m.opset, 17);
  EXPECT_THAT(m.warnings, IsEmpty());
}

TEST(Import, SaysBothNumbersWhenTheFileHasAnotherBatch) {
  OnnxBuilder b;
  b.Input("x", {2, 4}).Node("Relu", {"x"}, {"y"}).Output("y");
  const std::string error = b.Error(Batch(8));
  EXPECT_THAT(error, HasSubstr("fixed batch of 2"));
  EXPECT_THAT(error, HasSubstr("asks for 8"));
  EXPECT_THAT(error, HasSubstr("dynamic_axes={\"x\": {0: \"N\"}}"));
  EXPECT_TRUE(b.Import(Batch(2)).ok());
  EXPECT_TRUE(b.Import(Batch(0)).ok());
}

TEST(Import, RefusesOtherDynamicAxesByName) {
  OnnxBuilder b;
  b.Input("tokens", {4, kDynamic}).Node("Relu", {"tokens"}, {"y"}).Output("y");
  const std::string error = b.Error(Batch(4));
  EXPECT_THAT(error, HasSubstr("'tokens'"));
  EXPECT_THAT(error, HasSubstr("axis 1"));
}

TEST(Import, FoldsShapeArithmeticAfterBindingTheBatch) {
  OnnxBuilder b;  // x.view(x.size(0), -1)
  b.Input("x", {kDynamic, 2, 3}).Ints("zero", {0}).Ints("minus", {-1});
  b.Node("Shape", {"x"}, {"shape"}).Node("Gather", {"shape", "zero"}, {"n"});
  b.Node("Concat", {"n", "minus"}, {"to"}).With("axis", 0);
  b.Node("Reshape", {"x", "to"}, {"y"}).Output("y");
  const auto m = MustImport(b, Batch(5));
  EXPECT_EQ(OpsOf(m.graph), "Reshape");
  EXPECT_EQ(m.graph.value(m.graph.outputs[0]).type.shape, Shape({5, 6}));
}

TEST(Import, LeavesOutWhatNoOutputNeeds) {
  OnnxBuilder b = Linear();
  b.Node("NonMaxSuppression", {"logits"}, {"unused"});
  EXPECT_EQ(OpsOf(MustImport(b).graph), "Gemm");
}

TEST(Import, SortsNodesThatTheFileHasInAnyOrder) {
  OnnxBuilder b;
  b.Input("x", {1, 4}).Node("Tanh", {"a"}, {"y"}).Node("Relu", {"x"}, {"a"}).Output("y");
  EXPECT_EQ(OpsOf(MustImport(b).graph), "Relu Tanh");
}

TEST(Import, TurnsTransposedWeightsIntoAFlag) {
  OnnxBuilder b;
  b.Input("x", {kDynamic, 5, 4}).Ramp("w", {3, 4});
  b.Node("Transpose", {"w"}, {"wt"}).With("perm", Ints{1, 0});
  b.Node("MatMul", {"x", "wt"}, {"y"}).Output("y");
  const auto m = MustImport(b);
  EXPECT_EQ(OpsOf(m.graph), "MatMul");
  EXPECT_EQ(NodeOf(m.graph, "MatMul").attrs.Int("trans_b", 0), 1);
  EXPECT_EQ(m.weights.at("w").type.shape, Shape({3, 4}));  // never folded
}

TEST(Import, KeepsATransposeThatIsNeededAsSuch) {
  OnnxBuilder b;
  b.Input("x", {2, 3}).Node("Transpose", {"x"}, {"t"}).Node("Relu", {"t"}, {"y"}).Output("y");
  EXPECT_EQ(OpsOf(MustImport(b, Batch(2)).graph), "Transpose Relu");
}

TEST(Import, GivesVectorsInMatMulTheirAxisAndTakesItAway) {
  OnnxBuilder b;
  b.Input("x", {2, 4}).Ramp("w", {4}).Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  const auto m = MustImport(b, Batch(2));
  EXPECT_EQ(m.graph.value(m.graph.outputs[0]).type.shape, Shape({2}));
}

TEST(Import, TellsWeightsFromConstants) {
  OnnxBuilder b;  // a float mask that reaches only a comparison, and a bound of Clip
  b.Input("x", {2, 2}).Ramp("w", {2, 2}).Uniform("mask", {2, 2}, 0).Uniform("zero", {1}, 0);
  b.Weight("low", testing::Floats({}, {-1}));
  b.Node("Equal", {"mask", "zero"}, {"hidden"}).Node("Mul", {"x", "w"}, {"scores"});
  b.Node("Where", {"hidden", "x", "scores"}, {"masked"});
  b.Node("Clip", {"masked", "low"}, {"y"}).Output("y");
  const auto m = MustImport(b, Batch(2));
  EXPECT_EQ(OpsOf(m.graph), "Mul Where Clip");
  std::vector<std::string> trained;
  for (const auto& [name, tensor] : m.weights) trained.push_back(name);
  EXPECT_THAT(trained, ElementsAre("w"));
  const graph::Node& clip = NodeOf(m.graph, "Clip");
  EXPECT_EQ(clip.attrs.Float("min", 0), -1);
  EXPECT_FALSE(clip.attrs.Has("max"));
}

TEST(Import, NeverFoldsWhatDependsOnAWeight) {
  OnnxBuilder b;
  b.Input("x", {1, 2}).Ramp("w", {2}).Node("Exp", {"w"}, {"e"});
  b.Node("Mul", {"x", "e"}, {"y"}).Output("y");
  EXPECT_EQ(OpsOf(MustImport(b).graph), "Exp Mul");
}

TEST(Import, ReadsClipsAttributesOfOldOpsets) {
  OnnxBuilder b(10);
  b.Input("x", {1, 2}).Node("Clip", {"x"}, {"y"}).With("min", 0.0).With("max", 6.0).Output("y");
  const auto m = MustImport(b);
  EXPECT_EQ(NodeOf(m.graph, "Clip").attrs.Float("max", 0), 6);
}

OnnxBuilder BatchNorm(int opset, int training_mode, size_t outputs) {
  OnnxBuilder b(opset);
  b.Input("x", {kDynamic, 3, 2, 2})
      .Ramp("w", {3})
      .Ramp("b", {3})
      .Ramp("mean", {3})
      .Ramp("var", {3});
  std::vector<std::string> names = {"y", "m", "v", "sm", "sv"};
  names.resize(outputs);
  b.Node("BatchNormalization", {"x", "w", "b", "mean", "var"}, names).With("momentum", 0.75);
  if (training_mode >= 0) b.With("training_mode", training_mode);
  b.Output("y");
  return b;
}

TEST(Import, TrainsBatchNormWhateverTheExporterSaidUnlessAskedOtherwise) {
  ImportOptions options = Batch(2);
  const auto op = [&](const OnnxBuilder& b, BatchNormMode mode) {
    options.batch_norm = mode;
    return OpsOf(MustImport(b, options).graph);
  };
  EXPECT_EQ(op(BatchNorm(17, 0, 1), BatchNormMode::kTrain), "BatchNorm");
  EXPECT_EQ(op(BatchNorm(17, 1, 3), BatchNormMode::kFrozen), "BatchNormInference");
  EXPECT_EQ(op(BatchNorm(17, 1, 3), BatchNormMode::kAsExported), "BatchNorm");
  EXPECT_EQ(op(BatchNorm(17, 0, 1), BatchNormMode::kAsExported), "BatchNormInference");
  EXPECT_EQ(op(BatchNorm(9, -1, 5), BatchNormMode::kAsExported), "BatchNorm");
  EXPECT_EQ(op(BatchNorm(9, -1, 1), BatchNormMode::kAsExported), "BatchNormInference");
}

TEST(Import, KeepsRunningStatisticsAsBuffersAndTurnsMomentumRound) {
  const auto m = MustImport(BatchNorm(17, 1, 3), Batch(2));
  EXPECT_EQ(m.graph.value(m.graph.Find("mean")).role, Role::kBuffer);
  EXPECT_EQ(m.graph.value(m.graph.Find("w")).role, Role::kParam);
  EXPECT_EQ(m.weights.count("var"), 1u);
  EXPECT_NEAR(NodeOf(m.graph, "BatchNorm").attrs.Float("momentum", 0), 0.25, 1e-7);
}

OnnxBuilder DropoutModel(bool training) {
  OnnxBuilder b;
  b.Input("x", {1, 8}).Weight("ratio", testing::Floats({}, {0.25f}));
  b.Weight("on", HostTensor::Of<uint8_t>(DType::kBool, {}, {static_cast<uint8_t>(training)}));
  b.Node("Dropout", {"x", "ratio", "on"}, {"a"}).Node("Dropout", {"a", "ratio", "on"}, {"y"});
  b.Output("y");
  return b;
}

TEST(Import, GivesEveryDropoutItsOwnStreamAndTheJobsSeed) {
  const auto m = MustImport(DropoutModel(true));
  ASSERT_EQ(OpsOf(m.graph), "Dropout Dropout");
  EXPECT_NE(m.graph.nodes[0].attrs.Int("stream", -1), m.graph.nodes[1].attrs.Int("stream", -1));
  EXPECT_EQ(m.graph.nodes[0].attrs.Float("ratio", 0), 0.25);
  const graph::Value& rng = m.graph.value(m.graph.Find("ebb.rng"));
  EXPECT_EQ(rng.role, Role::kScalar);
  EXPECT_EQ(m.graph.nodes[0].inputs[1], rng.id);
}

TEST(Import, WarnsAboutDropoutInInferenceModeAndLetsTheJobSetIt) {
  const auto off = MustImport(DropoutModel(false));
  EXPECT_EQ(OpsOf(off.graph), "Identity");  // the output is the input under another name
  EXPECT_THAT(off.warnings, Contains(HasSubstr("inference mode")));
  ImportOptions options;
  options.dropout = 0.5;
  const auto on = MustImport(DropoutModel(false), options);
  EXPECT_EQ(on.graph.nodes[0].attrs.Float("ratio", 0), 0.5);
  options.dropout = 1;
  EXPECT_THAT(DropoutModel(true).Error(options), HasSubstr("below 1"));
}

TEST(Import, FlattensForSoftmaxBeforeOpset13) {
  const auto ops = [](int opset, int axis) {
    OnnxBuilder b(opset);
    b.Input("x", {2, 3, 4}).Node("Softmax", {"x"}, {"y"}).With("axis", axis).Output("y");
    return OpsOf(MustImport(b, Batch(2)).graph);
  };
  EXPECT_EQ(ops(12, 1), "Reshape Softmax Reshape");
  EXPECT_EQ(ops(12, 2), "Softmax");
  EXPECT_EQ(ops(13, 1), "Softmax");
}

TEST(Import, MakesOneNodeOfALayerNormalization) {
  const auto norm = [](std::vector<int64_t> scale) {
    OnnxBuilder b;
    b.Input("x", {2, 3, 4}).Ramp("s", scale).Ramp("b", {3, 4});
    b.Node("LayerNormalization", {"x", "s", "b"}, {"y"}).With("axis", -2).With("epsilon", 1e-3);
    b.Output("y");
    return b;
  };
  const auto m = MustImport(norm({3, 4}), Batch(2));
  EXPECT_EQ(OpsOf(m.graph), "LayerNorm");
  EXPECT_EQ(m.graph.nodes[0].attrs.Int("axis", 0), 1);
  EXPECT_NEAR(m.graph.nodes[0].attrs.Float("epsilon", 0), 1e-3, 1e-9);
  EXPECT_EQ(OpsOf(MustImport(norm({12}), Batch(2)).graph), "Reshape LayerNorm");
  EXPECT_EQ(OpsOf(MustImport(norm({3, 1}), Batch(2)).graph), "Expand LayerNorm");
  EXPECT_THAT(norm({2, 3, 4}).Error(Batch(2)), HasSubstr("must broadcast to the normalised axes"));
}

TEST(Import, MakesPadsExplicit) {
  OnnxBuilder b;
  b.Input("x", {1, 1, 5, 5}).Node("AveragePool", {"x"}, {"y"});
  b.With("kernel_shape", Ints{2, 2}).With("strides", Ints{2, 2}).With("ceil_mode", 1);
  b.With("count_include_pad", 1).Output("y");
  const auto m = MustImport(b);
  const graph::Attrs& attrs = NodeOf(m.graph, "AveragePool").attrs;
  EXPECT_EQ(attrs.Ints("pads"), Ints({0, 0, 1, 1}));
  EXPECT_EQ(attrs.Ints("counted_pads"), Ints({0, 0, 0, 0}));  // the divisor of the last window: 1
  EXPECT_EQ(m.graph.value(m.graph.outputs[0]).type.shape, Shape({1, 1, 3, 3}));

  OnnxBuilder same;
  same.Input("x", {1, 1, 5, 5}).Ramp("w", {1, 1, 2, 2}).Node("Conv", {"x", "w"}, {"y"});
  same.With("auto_pad", "SAME_LOWER").Output("y");
  EXPECT_EQ(NodeOf(MustImport(same).graph, "Conv").attrs.Ints("pads"), Ints({1, 1, 0, 0}));
}

TEST(Import, AddsUpSharedWeightsUnderOneName) {
  OnnxBuilder b;  // tied embedding and head
  b.Input("ids", {kDynamic, 3}, DType::kI64).Ramp("wte", {5, 4});
  b.Node("Gather", {"wte", "ids"}, {"h"})
      .Node("Transpose", {"wte"}, {"t"})
      .With("perm", Ints{1, 0});
  b.Node("MatMul", {"h", "t"}, {"y"}).Output("y");
  const auto m = MustImport(b, Batch(2));
  EXPECT_EQ(m.weights.size(), 1u);
  EXPECT_EQ(NodeOf(m.graph, "Gather").inputs[0], NodeOf(m.graph, "MatMul").inputs[1]);
}

OnnxBuilder Merged() {
  OnnxBuilder b;  // what de-duplication by value makes of two zero biases, one behind an Identity
  b.Input("x", {kDynamic, 3}).Ramp("w1", {3, 3}).Ramp("w2", {3, 3}).Uniform("bias", {3}, 0);
  b.Node("Identity", {"bias"}, {"copy"}).Node("Gemm", {"x", "w1", "bias"}, {"a"}, "first");
  b.Node("Gemm", {"a", "w2", "copy"}, {"y"}, "second").Output("y");
  return b;
}

TEST(Import, RefusesWeightsMergedByValueOrSplitsThem) {
  const std::string error = Merged().Error();
  EXPECT_THAT(error, HasSubstr("'bias' is shared by 2 places"));
  EXPECT_THAT(error, HasSubstr("optimize=False"));
  ImportOptions options;
  options.untie_uniform = true;
  const auto m = MustImport(Merged(), options);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : m.weights) names.push_back(name);
  EXPECT_THAT(names, UnorderedElementsAre("w1", "w2", "bias", "bias@2"));
  EXPECT_NE(m.graph.nodes[0].inputs[2], m.graph.nodes[1].inputs[2]);
}

TEST(Import, WarnsWhenBatchNormMayHaveBeenFoldedAndNamesAreLost) {
  OnnxBuilder b;
  b.Input("x", {1, 2, 4, 4}).Ramp("onnx::Conv_1", {2, 2, 1, 1}).Ramp("b", {2});
  b.Node("Conv", {"x", "onnx::Conv_1", "b"}, {"a"}).Node("Conv", {"a", "onnx::Conv_1", "b"}, {"y"});
  const auto m = MustImport(b.Output("y"));
  EXPECT_THAT(m.warnings, Contains(HasSubstr("folded it away")));
  EXPECT_THAT(m.warnings, Contains(HasSubstr("do_constant_folding=False")));
}

TEST(Import, OffersTwoOutputsAndGraphInputsAsOutputs) {
  OnnxBuilder b;
  b.Input("x", {1, 2}).Node("Relu", {"x"}, {"y"}).Node("Identity", {"y"}, {"z"});
  const auto m = MustImport(b.Output("y").Output("z").Output("x"));
  ASSERT_EQ(m.graph.outputs.size(), 3u);
  EXPECT_EQ(m.graph.value(m.graph.outputs[0]).name, "y");
  EXPECT_EQ(m.graph.value(m.graph.outputs[1]).name, "z");
  EXPECT_EQ(m.graph.value(m.graph.outputs[2]).role, Role::kInput);
}

TEST(Import, NamesTheNodeOpOpsetAndDomainThatItDoesNotSupport) {
  OnnxBuilder b;
  b.Input("x", {1, 2}).Node("GridSample", {"x"}, {"y"}, "warp/grid").Output("y");
  EXPECT_EQ(b.Import({}).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(b.Error(),
              HasSubstr("node 'warp/grid' uses op GridSample (opset 17, domain ai.onnx), "
                        "which Ebb does not support"));
  OnnxBuilder custom;
  custom.Input("x", {1, 2}).Node("FastGelu", {"x"}, {"y"}).Output("y");
  custom.proto().mutable_graph()->mutable_node(0)->set_domain("com.microsoft");
  EXPECT_THAT(custom.Error(), HasSubstr("domain com.microsoft"));
}

TEST(Import, RefusesControlFlowWithAdvice) {
  for (const char* op : {"Loop", "If", "Scan", "SequenceEmpty"}) {
    OnnxBuilder b;
    b.Input("x", {1, 2}).Node(op, {"x"}, {"y"}, "flow").Output("y");
    EXPECT_THAT(b.Error(), HasSubstr("'flow'")) << op;
    EXPECT_EQ(b.Import({}).status().code(), absl::StatusCode::kUnimplemented) << op;
  }
}

// What dynamo makes of torch.split.
TEST(Import, CutsSequencesOfKnownLengthIntoSlices) {
  const auto cut = [](const Ints& sizes, int64_t position) {
    OnnxBuilder b(18);
    b.Input("x", {2, 6}).Ints("sizes", sizes).Ints("at", {position});
    b.Node("SplitToSequence", {"x", "sizes"}, {"parts"}).With("axis", 1);
    b.Node("SequenceAt", {"parts", "at"}, {"y"}, "pick").Output("y");
    return b;
  };
  const auto m = MustImport(cut({2, 4}, -1), Batch(2));
  EXPECT_EQ(m.graph.value(m.graph.outputs[0]).type.shape, Shape({2, 4}));
  EXPECT_EQ(m.graph.node(m.graph.value(m.graph.outputs[0]).producer).attrs.Ints("starts"),
            Ints({2}));
  EXPECT_THAT(cut({2, 4}, 2).Error(Batch(2)), HasSubstr("one number below 2"));
  EXPECT_THAT(cut({2, 5}, 0).Error(Batch(2)), HasSubstr("do not add up"));
  OnnxBuilder other = cut({2, 4}, 0);  // a sequence is good for nothing else
  other.Node("SequenceLength", {"parts"}, {"n"}).Output("n");
  EXPECT_EQ(other.Import(Batch(2)).status().code(), absl::StatusCode::kUnimplemented);
  OnnxBuilder plain(18);
  plain.Input("x", {2, 6}).Ints("at", {0}).Node("SequenceAt", {"x", "at"}, {"y"}).Output("y");
  EXPECT_THAT(plain.Error(Batch(2)), HasSubstr("no sequence"));
}

TEST(Import, RefusesOpsetsThatItDoesNotKnow) {
  EXPECT_THAT(OnnxBuilder(6).Input("x", {1}).Output("x").Error(), HasSubstr("opset 6"));
  EXPECT_THAT(OnnxBuilder(99).Input("x", {1}).Output("x").Error(), HasSubstr("opset 99"));
}

TEST(Import, SaysWhatMustBeConstant) {
  OnnxBuilder b;
  b.Input("x", {1, 4}).Input("to", {1}, DType::kI64).Node("Reshape", {"x", "to"}, {"y"}, "view");
  const std::string error = b.Output("y").Error();
  EXPECT_THAT(error, HasSubstr("'view'"));
  EXPECT_THAT(error, HasSubstr("must be a constant"));
}

}  // namespace
}  // namespace ebb
