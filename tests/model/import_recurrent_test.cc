// What the importer makes of LSTM and GRU: weights that exporters have cut up and joined in
// another order, packed ones, both directions, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "graph/op.h"
#include "tests/model/onnx_builder.h"

namespace ebb {
namespace {

using graph::Node;
using graph::Role;
using graph::Shape;
using ::testing::HasSubstr;
using testing::NodeOf;
using testing::OnnxBuilder;

constexpr int64_t kSteps = 5, kBatch = 2, kFeatures = 3, kHidden = 4;

struct Form {
  std::string op = "LSTM";
  std::vector<int> order = {0, 3, 1, 2};  // where PyTorch keeps i, o, f, c
  int64_t gates() const { return static_cast<int64_t>(order.size()); }
};
const Form kLstm, kGru = {"GRU", {1, 0, 2}};

// `name`, a weight of `columns`, cut into its gates and joined in ONNX's order as `name`/joined.
void Reorder(OnnxBuilder& b, const Form& form, const std::string& name, int64_t columns) {
  std::vector<int64_t> shape = {form.gates() * kHidden};
  if (columns > 0) shape.push_back(columns);
  b.Ramp(name, shape);
  std::vector<std::string> parts;
  for (const int gate : form.order) {
    parts.push_back(absl::StrCat(name, "/", gate));
    b.Ints(parts.back() + "/start", {gate * kHidden})
        .Ints(parts.back() + "/end", {(gate + 1) * kHidden});
    b.Node("Slice", {name, parts.back() + "/start", parts.back() + "/end", "zero"}, {parts.back()});
  }
  b.Node("Concat", parts, {name + "/joined"}).With("axis", 0);
}

// As PyTorch exports a layer with do_constant_folding=False.
OnnxBuilder Exported(const Form& form) {
  OnnxBuilder b;
  b.Input("x", {kSteps, kBatch, kFeatures}).Ints("zero", {0});
  Reorder(b, form, "l.weight_ih", kFeatures);
  Reorder(b, form, "l.weight_hh", kHidden);
  Reorder(b, form, "l.bias_ih", 0);
  Reorder(b, form, "l.bias_hh", 0);
  b.Node("Concat", {"l.bias_ih/joined", "l.bias_hh/joined"}, {"bias"}).With("axis", 0);
  for (const char* name : {"l.weight_ih/joined", "l.weight_hh/joined", "bias"}) {
    b.Node("Unsqueeze", {name, "zero"}, {absl::StrCat(name, "/packed")});
  }
  b.Node(form.op, {"x", "l.weight_ih/joined/packed", "l.weight_hh/joined/packed", "bias/packed"},
         {"y"})
      .With("hidden_size", kHidden);
  if (form.op == "GRU") b.With("linear_before_reset", 1);
  b.Output("y");
  return b;
}

OnnxBuilder Packed(const std::string& op, int64_t directions, const char* direction) {
  const int64_t rows = (op == "LSTM" ? 4 : 3) * kHidden;
  OnnxBuilder b;
  b.Input("x", {kSteps, kBatch, kFeatures}).Ramp("w", {directions, rows, kFeatures});
  b.Ramp("r", {directions, rows, kHidden}).Ramp("b", {directions, 2 * rows});
  b.Node(op, {"x", "w", "r", "b"}, {"y"}).With("direction", direction).Output("y");
  return b;
}

const model::ImportOptions kAsExported = {.batch_size = 0};

std::string NameOf(const model::ImportedModel& m, ValueId id) { return m.graph.value(id).name; }

TEST(ImportRecurrent, ReadsWeightsAsTheyAreStored) {
  for (const Form& form : {kLstm, kGru}) {
    const auto m = Exported(form).Import(kAsExported);
    ASSERT_TRUE(m.ok()) << m.status();
    const Node& layer = NodeOf(m->graph, form.op == "LSTM" ? "Lstm" : "Gru");
    EXPECT_EQ(layer.attrs.Str("gates"), form.op == "LSTM" ? "ifco" : "rzh");
    EXPECT_EQ(NameOf(*m, layer.inputs[1]), "l.weight_hh");
    EXPECT_EQ(NameOf(*m, NodeOf(m->graph, "Gemm").inputs[1]), "l.weight_ih");
    EXPECT_EQ(m->graph.value(m->graph.outputs[0]).type.shape, Shape({kSteps, 1, kBatch, kHidden}));
    EXPECT_EQ(m->weights.size(), 4u);
    for (const auto& [name, tensor] : m->weights) {
      EXPECT_EQ(m->graph.value(m->graph.Find(name)).role, Role::kParam) << name;
    }
  }
}

TEST(ImportRecurrent, TrainedWeightsGoBackUnderTheirNamesInTheirOrder) {
  const OnnxBuilder b = Exported(kLstm);
  const auto before = b.Import(kAsExported);
  ASSERT_TRUE(before.ok()) << before.status();
  graph::TensorMap trained = before->weights;
  for (auto& [name, tensor] : trained) {
    for (float& element : tensor.as<float>()) element += 1;
  }
  const auto file = model::ExportOnnx(b.Bytes(), trained);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto after = model::ImportOnnx(*file, kAsExported);
  ASSERT_TRUE(after.ok()) << after.status();
  ASSERT_EQ(after->weights.size(), 4u);
  for (const auto& [name, tensor] : after->weights) EXPECT_EQ(tensor.data, trained.at(name).data);
}

TEST(ImportRecurrent, AGateOrderThatNoLayerHasIsJoinedInTheStep) {
  const auto m = Exported({"LSTM", {3, 2, 1, 0}}).Import(kAsExported);
  ASSERT_TRUE(m.ok()) << m.status();
  const Node& layer = NodeOf(m->graph, "Lstm");
  EXPECT_EQ(layer.attrs.Str("gates"), "iofc");
  EXPECT_EQ(m->graph.value(layer.inputs[1]).role, Role::kActivation);
}

TEST(ImportRecurrent, PackedWeightsOfOneDirectionNeedNoCopies) {
  const auto m = Packed("LSTM", 1, "reverse").Import(kAsExported);
  ASSERT_TRUE(m.ok()) << m.status();
  const Node& layer = NodeOf(m->graph, "Lstm");
  EXPECT_EQ(layer.attrs.Int("reverse", 0), 1);
  EXPECT_EQ(layer.attrs.Str("gates"), "iofc");
  const Node& view = m->graph.node(m->graph.value(layer.inputs[1]).producer);
  EXPECT_EQ(view.op->name, "Reshape");
  EXPECT_EQ(NameOf(*m, view.inputs[0]), "r");
}

TEST(ImportRecurrent, TwoDirectionsAreTwoNodes) {
  for (const char* op : {"LSTM", "GRU"}) {
    const auto m = Packed(op, 2, "bidirectional").Import(kAsExported);
    ASSERT_TRUE(m.ok()) << m.status();
    int forward = 0, reverse = 0;
    for (const Node& node : m->graph.nodes) {
      if (node.op->name != "Lstm" && node.op->name != "Gru") continue;
      ++(node.attrs.Int("reverse", 0) == 1 ? reverse : forward);
    }
    EXPECT_EQ(forward, 1);
    EXPECT_EQ(reverse, 1);
    EXPECT_EQ(m->graph.value(m->graph.outputs[0]).type.shape, Shape({kSteps, 2, kBatch, kHidden}));
  }
}

TEST(ImportRecurrent, ZerosAsInitialStateAreNone) {
  for (const float value : {0.0f, 0.5f}) {
    OnnxBuilder b = Packed("GRU", 1, "forward");
    b.Uniform("h0", {1, kBatch, kHidden}, value);
    for (const char* input : {"", "h0"})
      b.proto().mutable_graph()->mutable_node(0)->add_input(input);
    const auto m = b.Import(kAsExported);
    ASSERT_TRUE(m.ok()) << m.status();
    // An initializer that a gradient reaches is trained, whatever it holds.
    EXPECT_EQ(NodeOf(m->graph, "Gru").inputs.size(), 4u);
  }
  OnnxBuilder b = Packed("GRU", 1, "forward");
  b.Ints("shape", {1, kBatch, kHidden}).Node("ConstantOfShape", {"shape"}, {"h0"});
  for (const char* input : {"", "h0"}) b.proto().mutable_graph()->mutable_node(0)->add_input(input);
  const auto m = b.Import(kAsExported);
  ASSERT_TRUE(m.ok()) << m.status();
  EXPECT_EQ(NodeOf(m->graph, "Gru").inputs.size(), 3u);
}

TEST(ImportRecurrent, LastStatesComeFromTheStepThatIsComputedLast) {
  for (const auto& [direction, step] :
       {std::pair<const char*, int64_t>{"forward", kSteps - 1}, {"reverse", 0}}) {
    OnnxBuilder b = Packed("LSTM", 1, direction);
    b.proto().mutable_graph()->mutable_node(0)->add_output("h");
    b.Output("h");
    const auto m = b.Import(kAsExported);
    ASSERT_TRUE(m.ok()) << m.status();
    const Node& last = m->graph.node(m->graph.value(m->graph.outputs[1]).producer);
    EXPECT_EQ(last.op->name, "Slice");
    EXPECT_EQ(last.attrs.Ints("starts"), std::vector<int64_t>{step});
    EXPECT_EQ(m->graph.value(last.outputs[0]).type.shape, Shape({1, kBatch, kHidden}));
  }
}

TEST(ImportRecurrent, UniformBiasesThatAreCutAreNotTied) {
  OnnxBuilder b = Exported(kLstm);
  auto* graph = b.proto().mutable_graph();
  for (auto& tensor : *graph->mutable_initializer()) {
    if (tensor.name() == "l.bias_ih") tensor.set_raw_data(std::string(4 * 4 * kHidden, '\0'));
    if (tensor.name() == "l.bias_ih") tensor.clear_float_data();
  }
  const auto m = b.Import(kAsExported);
  EXPECT_TRUE(m.ok()) << m.status();
}

TEST(ImportRecurrent, MergedBiasesAreRefused) {
  OnnxBuilder b = Exported(kLstm);
  for (auto& node : *b.proto().mutable_graph()->mutable_node()) {
    if (node.input(0) == "l.bias_hh") node.set_input(0, "l.bias_ih");
  }
  EXPECT_THAT(b.Error(kAsExported), HasSubstr("both biases are one weight"));
}

TEST(ImportRecurrent, SequenceLengthsMustBeFull) {
  for (const auto& [length, fits] : {std::pair<int64_t, bool>{kSteps, true}, {kSteps - 1, false}}) {
    OnnxBuilder b = Packed("LSTM", 1, "forward");
    b.Ints("lengths", std::vector<int64_t>(kBatch, length));
    b.proto().mutable_graph()->mutable_node(0)->add_input("lengths");
    if (fits) {
      EXPECT_TRUE(b.Import(kAsExported).ok());
    } else {
      EXPECT_THAT(b.Error(kAsExported), HasSubstr("pack_padded_sequence"));
    }
  }
}

TEST(ImportRecurrent, RefusesWhatItDoesNotDo) {
  EXPECT_THAT(Packed("LSTM", 1, "forward").With("clip", 1.0).Error(kAsExported),
              HasSubstr("without clip"));
  EXPECT_THAT(Packed("LSTM", 1, "forward").With("input_forget", 1).Error(kAsExported),
              HasSubstr("coupled gates"));
  EXPECT_THAT(Packed("LSTM", 1, "sideways").Error(kAsExported),
              HasSubstr("forward, reverse or bidirectional"));
  EXPECT_THAT(Packed("LSTM", 2, "forward").Error(kAsExported), HasSubstr("they must be [1,16,3]"));
  EXPECT_THAT(Packed("GRU", 1, "forward").With("hidden_size", 5).Error(kAsExported),
              HasSubstr("with hidden_size 4"));
  OnnxBuilder peepholes = Packed("LSTM", 1, "forward");
  peepholes.Ramp("p", {1, 3 * kHidden});
  for (const char* input : {"", "", "", "p"}) {
    peepholes.proto().mutable_graph()->mutable_node(0)->add_input(input);
  }
  EXPECT_THAT(peepholes.Error(kAsExported), HasSubstr("peepholes"));
  OnnxBuilder relu = Packed("LSTM", 1, "forward");
  auto* activations = relu.proto().mutable_graph()->mutable_node(0)->add_attribute();
  activations->set_name("activations");
  activations->set_type(model::onnx::AttributeProto::STRINGS);
  for (const char* name : {"Sigmoid", "Relu", "Tanh"}) activations->add_strings(name);
  EXPECT_THAT(relu.Error(kAsExported), HasSubstr("Sigmoid, Relu, Tanh"));
}

}  // namespace
}  // namespace ebb
