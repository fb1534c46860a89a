// Shape rules, flags and costs of the op table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/graph/op_cases.h"

namespace ebb::graph {
namespace {
using Ints = std::vector<int64_t>;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OpTable, EveryOpHasAnAcceptedAndARefusedCase) {
  std::set<std::string> accepted, refused;
  for (const OpCase& test : AcceptedCases()) accepted.insert(test.op);
  for (const OpCase& test : RefusedCases()) refused.insert(test.op);
  std::set<std::string> all;
  for (const OpDef* op : AllOps()) all.insert(std::string(op->name));
  EXPECT_EQ(accepted, all);
  EXPECT_EQ(refused, all);
  EXPECT_GT(all.size(), 80u);
}

TEST(OpTable, ShapeRulesGiveTheTypesOfOutputs) {
  for (const OpCase& test : AcceptedCases()) {
    SCOPED_TRACE(Describe(test));
    Graph graph;
    const auto node = graph.AddNode(test.op, "n", AddInputs(graph, test), test.attrs);
    ASSERT_TRUE(node.ok()) << node.status();
    std::vector<std::string> outputs;
    for (const ValueId id : graph.node(*node).outputs) {
      outputs.push_back(ToString(graph.value(id).type));
    }
    EXPECT_EQ(outputs, Words(test.outputs));
  }
}

TEST(OpTable, ShapeRulesRefuseWithTheReason) {
  for (const OpCase& test : RefusedCases()) {
    SCOPED_TRACE(Describe(test));
    Graph graph;
    const auto node = graph.AddNode(test.op, "n", AddInputs(graph, test), test.attrs);
    ASSERT_FALSE(node.ok());
    EXPECT_EQ(node.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(node.status().message()), HasSubstr(test.refused));
  }
}

// The shape rule alone, without the checks that AddNode does before it.
TEST(OpTable, ShapeRulesSurviveAbsentInputsAndWronglyTypedAttributes) {
  const std::vector<AttrValue> values = {int64_t{1}, 1.5, Ints{1}, std::string("x")};
  for (const OpCase& test : AcceptedCases()) {
    SCOPED_TRACE(Describe(test));
    const OpDef& op = *FindOp(test.op);
    EXPECT_FALSE(op.shape({{}, test.attrs}).ok());
    Graph graph;
    std::vector<TensorType> types;
    for (const std::string& word : Words(test.inputs)) {
      types.push_back(word == "-" ? TensorType() : ParseType(word));
    }
    std::vector<const TensorType*> inputs;
    for (const TensorType& type : types) inputs.push_back(&type);
    for (int i = 0; i < op.min_inputs; ++i) {
      auto some = inputs;
      some[static_cast<size_t>(i)] = nullptr;
      EXPECT_FALSE(op.shape({some, test.attrs}).ok()) << "without input " << i;
    }
    for (const auto& [name, value] : test.attrs.map()) {
      for (const AttrValue& other : values) {
        const std::optional<AttrKind> kind = AttrKindOf(name);
        const bool float_by_int = kind == AttrKind::kFloat && other.index() == 0;
        if (other.index() == static_cast<size_t>(*kind) || float_by_int) continue;
        Attrs attrs = test.attrs;
        attrs.Set(name, other);
        EXPECT_FALSE(op.shape({inputs, attrs}).ok()) << name;
      }
    }
  }
}

std::vector<std::string> NamesOf(bool (*has)(const OpDef&)) {
  std::vector<std::string> names;
  for (const OpDef* op : AllOps()) {
    if (has(*op)) names.emplace_back(op->name);
  }
  return names;
}

TEST(OpTable, OnlyTheseOpsMutateViewOrWorkInPlaceOfTheirSecondInput) {
  EXPECT_THAT(
      NamesOf([](const OpDef& op) { return !op.mutates.empty(); }),
      ElementsAre("AdagradUpdate", "AdamUpdate", "BatchNorm", "RmsPropUpdate",
                  "RowwiseAdagradUpdate", "SgdUpdate", "SparseRowwiseAdagradUpdate", "Store"));
  EXPECT_THAT(FindOp("BatchNorm")->mutates, ElementsAre(3, 4));
  EXPECT_THAT(FindOp("SgdUpdate")->mutates, ElementsAre(0, 3, 4));
  EXPECT_THAT(FindOp("AdamUpdate")->mutates, ElementsAre(0, 3, 4, 5));
  EXPECT_THAT(NamesOf([](const OpDef& op) { return op.is_view; }),
              ElementsAre("Identity", "Reshape"));
  EXPECT_THAT(NamesOf([](const OpDef& op) { return op.in_place > 0; }),
              ElementsAre("CrossEntropyGrad"));
  EXPECT_EQ(FindOp("CrossEntropyGrad")->in_place, 1);
}

TEST(OpTable, InPlaceOpsMakeTheTypeOfWhatTheyOverwrite) {
  for (const OpCase& test : AcceptedCases()) {
    const int in_place = FindOp(test.op)->in_place;
    const std::vector<std::string> inputs = Words(test.inputs), outputs = Words(test.outputs);
    if (in_place < 0 || inputs.size() == 0) continue;
    // Broadcasting ops may make more; then liveness sees another size.
    const std::string input = inputs[static_cast<size_t>(in_place)];
    EXPECT_TRUE(input == outputs[0] || ParseType(input).bytes() != ParseType(outputs[0]).bytes())
        << Describe(test);
  }
}

TEST(OpTable, ElementwiseOpsKeepTheShapeOfInputsThatAgree) {
  for (const OpCase& test : AcceptedCases()) {
    if (!FindOp(test.op)->elementwise) continue;
    const std::vector<std::string> inputs = Words(test.inputs);
    bool agree = true;
    for (const std::string& input : inputs) {
      agree &= ParseType(input).shape == ParseType(inputs[0]).shape;
    }
    if (agree) {
      EXPECT_EQ(ParseType(Words(test.outputs)[0]).shape, ParseType(inputs[0]).shape)
          << Describe(test);
    }
  }
  // Their result depends on where an element is.
  for (const char* op : {"Dropout", "Softmax", "Reshape", "ToPlain", "SumTo", "Concat"}) {
    EXPECT_FALSE(FindOp(op)->elementwise) << op;
  }
  for (const char* op : {"Relu", "ReluGrad", "Add", "AddN", "DropoutGrad", "Scale", "Identity"}) {
    EXPECT_TRUE(FindOp(op)->elementwise) << op;
  }
}

int64_t FlopsOf(const OpCase& test) {
  Graph graph;
  const auto node = graph.AddNode(test.op, "n", AddInputs(graph, test), test.attrs);
  EXPECT_TRUE(node.ok()) << node.status();
  return node.ok() ? CostOf(graph, graph.node(*node)).flops.count() : -1;
}

TEST(OpTable, CountsAMultiplyAddAsTwoFlops) {
  const Attrs conv = {{"strides", Ints{1, 1}},
                      {"pads", Ints{1, 1, 1, 1}},
                      {"dilations", Ints{1, 1}},
                      {"groups", 2}};
  Attrs input = conv, weight = conv;
  input.Set("input_shape", Ints{2, 8, 5, 5});
  weight.Set("weight_shape", Ints{6, 4, 3, 3});
  const int64_t expected = 2 * (2 * 6 * 25) * (4 * 9);
  EXPECT_EQ(FlopsOf({"Conv", "f32[2,8,5,5] f32[6,4,3,3]", conv, "", ""}), expected);
  EXPECT_EQ(FlopsOf({"ConvGradInput", "f32[2,6,5,5] f32[6,4,3,3]", input, "", ""}), expected);
  EXPECT_EQ(FlopsOf({"ConvGradWeight", "f32[2,6,5,5] f32[2,8,5,5]", weight, "", ""}), expected);
  EXPECT_EQ(FlopsOf({"MatMul", "f32[7,3,2] f32[7,3,4]", {{"trans_a", 1}}, "", ""}),
            2 * 7 * 2 * 3 * 4);
  EXPECT_EQ(FlopsOf({"Gemm", "f32[3,2] f32[3,4]", {{"trans_a", 1}}, "", ""}), 2 * 2 * 3 * 4);
  EXPECT_EQ(FlopsOf({"Relu", "f32[3,4]", {}, "", ""}), 12);
  EXPECT_EQ(FlopsOf({"ReduceSum", "f32[3,4]", {{"axes", Ints{0}}}, "", ""}), 12);
  EXPECT_EQ(FlopsOf({"Reshape", "f32[3,4]", {{"shape", Ints{12}}}, "", ""}), 0);
}

TEST(OpTable, FlopsOfAbsurdSizesSaturate) {
  EXPECT_EQ(FlopsOf({"MatMul", "f32[2097152,2097152] f32[2097152,2097152]", {}, "", ""}),
            std::numeric_limits<int64_t>::max());
}

TEST(OpTable, EveryAcceptedUseHasACost) {
  for (const OpCase& test : AcceptedCases()) EXPECT_GE(FlopsOf(test), 0) << Describe(test);
}

}  // namespace
}  // namespace ebb::graph
