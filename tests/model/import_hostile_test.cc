// Damaged and hostile ONNX files: an error that says what is wrong, never a crash or a huge
// allocation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "model/import.h"
#include "tests/model/onnx_builder.h"

namespace ebb {
namespace {

using graph::DType;
using model::ImportOptions;
using ::testing::HasSubstr;
using testing::kDynamic;
using testing::OnnxBuilder;

using Ints = std::vector<int64_t>;

// A little of everything: convolution, batch norm, pooling, shape arithmetic, dropout, softmax.
std::string Valid() {
  OnnxBuilder b;
  b.Input("x", {kDynamic, 2, 6, 6}).Ramp("conv.weight", {3, 2, 3, 3}).Ramp("conv.bias", {3});
  b.Ramp("bn.weight", {3}).Ramp("bn.bias", {3}).Ramp("bn.mean", {3}).Ramp("bn.var", {3});
  b.Ramp("fc.weight", {4, 12}).Ints("zero", {0}).Ints("minus", {-1}).Ints("axes", {1});
  b.Node("Conv", {"x", "conv.weight", "conv.bias"}, {"c"}, "conv").With("pads", Ints{1, 1, 1, 1});
  b.Node("BatchNormalization", {"c", "bn.weight", "bn.bias", "bn.mean", "bn.var"}, {"n"}, "bn");
  b.Node("MaxPool", {"n"}, {"p"}).With("kernel_shape", Ints{3, 3}).With("strides", Ints{3, 3});
  b.Node("Shape", {"p"}, {"s"}).Node("Gather", {"s", "zero"}, {"batch"}).With("axis", 0);
  b.Node("Concat", {"batch", "minus"}, {"to"}).With("axis", 0);
  b.Node("Reshape", {"p", "to"}, {"flat"}).Node("Transpose", {"fc.weight"}, {"wt"});
  b.With("perm", Ints{1, 0}).Node("MatMul", {"flat", "wt"}, {"logits"});
  b.Node("Unsqueeze", {"logits", "axes"}, {"u"}).Node("Squeeze", {"u", "axes"}, {"q"});
  b.Node("Softmax", {"q"}, {"y"}).With("axis", -1).Output("y");
  return b.Bytes();
}

ImportOptions Small() {
  ImportOptions options;
  options.max_constant_bytes = 1 << 20;
  return options;
}

TEST(HostileOnnx, TheUndamagedModelIsFine) {
  const auto imported = model::ImportOnnx(Valid(), Small());
  EXPECT_TRUE(imported.ok()) << imported.status();
}

TEST(HostileOnnx, CutAtAnyByteItGivesAnErrorOrAnotherValidModel) {
  const std::string bytes = Valid();
  int errors = 0;
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto imported = model::ImportOnnx(bytes.substr(0, length), Small());
    errors += imported.ok() ? 0 : 1;
    EXPECT_TRUE(imported.ok() || !imported.status().message().empty());
  }
  // Only cuts between top-level fields can leave a whole model behind.
  EXPECT_GE(errors, static_cast<int>(bytes.size()) - 2);
}

TEST(HostileOnnx, DamagedAtRandomItNeverCrashes) {
  const std::string valid = Valid();
  std::mt19937 random(20240607);  // NOLINT: the same damage in every run
  int errors = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = valid;
    const int flips = 1 + static_cast<int>(random() % 8);
    for (int i = 0; i < flips; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random() % 256);
    }
    const auto imported = model::ImportOnnx(bytes, Small());
    errors += imported.ok() ? 0 : 1;
    (void)model::ExportOnnx(bytes, {});
  }
  EXPECT_GT(errors, 500);  // else the damage was not damage
}

// Damage that the parser accepts: numbers, names, types and ops that do not fit each other.
TEST(HostileOnnx, WithFieldsExchangedAtRandomItNeverCrashes) {
  model::onnx::ModelProto valid;
  ASSERT_TRUE(valid.ParseFromString(Valid()));
  std::mt19937 random(7);  // NOLINT: the same damage in every run
  const int64_t numbers[] = {0,         1,        2, 3, -1, -2, 7, 255, 1 << 20, int64_t{1} << 40,
                             INT64_MIN, INT64_MAX};
  const auto below = [&](int count) {
    return static_cast<int>(random() % static_cast<unsigned>(count));
  };
  const auto number = [&] { return numbers[random() % std::size(numbers)]; };
  const char* ops[] = {"Relu",
                       "Add",
                       "Conv",
                       "Gemm",
                       "MatMul",
                       "Reshape",
                       "Slice",
                       "Split",
                       "Pad",
                       "Gather",
                       "Expand",
                       "Tile",
                       "Where",
                       "Concat",
                       "Squeeze",
                       "Range",
                       "Transpose",
                       "ReduceSum",
                       "MaxPool",
                       "Dropout",
                       "Trilu",
                       "Flatten",
                       "LRN",
                       "Softmax",
                       "PRelu",
                       "Pow",
                       "Cast",
                       "Sum",
                       "AveragePool",
                       "LayerNormalization",
                       "NegativeLogLikelihoodLoss",
                       "ConstantOfShape",
                       "Identity",
                       "GlobalMaxPool",
                       "SoftmaxCrossEntropyLoss"};
  int imported = 0;
  for (int round = 0; round < 5000; ++round) {
    model::onnx::ModelProto model = valid;
    auto* graph = model.mutable_graph();
    for (size_t edits = 1 + random() % 3; edits > 0; --edits) {
      auto* node = graph->mutable_node(below(graph->node_size()));
      auto* tensor = graph->mutable_initializer(below(graph->initializer_size()));
      const auto& other = graph->node(below(graph->node_size()));
      switch (random() % 9) {
        case 0:
          node->set_op_type(ops[random() % std::size(ops)]);
          break;
        case 1:
          node->set_input(0, other.output(0));
          break;
        case 2:
          node->add_input(graph->initializer(below(graph->initializer_size())).name());
          break;
        case 3:
          for (auto& attr : *node->mutable_attribute()) {
            attr.set_i(number());
            for (int64_t& value : *attr.mutable_ints()) value = number();
          }
          break;
        case 4: {
          auto* attr = node->add_attribute();
          const char* names[] = {"axis", "axes", "pads", "kernel_shape", "to", "perm", "group"};
          attr->set_name(names[random() % std::size(names)]);
          const bool list = random() % 2 == 0;
          attr->set_type(list ? model::onnx::AttributeProto::INTS
                              : model::onnx::AttributeProto::INT);
          attr->set_i(number());
          for (size_t i = random() % 5; i > 0; --i) attr->add_ints(number());
          break;
        }
        case 5:
          if (tensor->dims_size() > 0) tensor->set_dims(0, number());
          break;
        case 6:
          for (size_t i = 0; i + 8 <= tensor->raw_data().size(); i += 8) {
            const int64_t value = number();
            tensor->mutable_raw_data()->replace(i, 8, reinterpret_cast<const char*>(&value), 8);
          }
          break;
        case 7:
          tensor->set_data_type(static_cast<int>(random() % 18));
          break;
        default:
          model.mutable_opset_import(0)->set_version(7 + static_cast<int64_t>(random() % 17));
      }
    }
    const std::string bytes = model.SerializeAsString();
    ImportOptions options = Small();
    options.batch_size = 1 + static_cast<int64_t>(random() % 3);
    options.untie_uniform = random() % 2 == 0;
    const auto result = model::ImportOnnx(bytes, options);
    if (!result.ok()) continue;
    ++imported;
    const auto exported = model::ExportOnnx(bytes, result->weights);
    ASSERT_TRUE(exported.ok()) << exported.status() << " in round " << round;
    const auto again = model::ImportOnnx(*exported, options);
    ASSERT_TRUE(again.ok()) << again.status() << " in round " << round;
  }
  EXPECT_GT(imported, 100);
}

TEST(HostileOnnx, RefusesWhatIsNoModel) {
  EXPECT_THAT(std::string(model::ImportOnnx("", {}).status().message()), HasSubstr("no graph"));
  EXPECT_THAT(std::string(model::ImportOnnx("PK\x03\x04 a zip", {}).status().message()),
              HasSubstr("no ONNX model"));
}

TEST(HostileOnnx, RefusesCycles) {
  OnnxBuilder b;
  b.Input("x", {1}).Node("Add", {"x", "b"}, {"a"}).Node("Relu", {"a"}, {"b"}).Output("b");
  EXPECT_THAT(b.Error(), HasSubstr("a cycle"));
  OnnxBuilder self;
  self.Input("x", {1}).Node("Identity", {"y"}, {"y"}).Output("y");
  EXPECT_THAT(self.Error(), HasSubstr("a cycle"));
}

TEST(HostileOnnx, RefusesNamesThatAreMissingOrTwice) {
  OnnxBuilder missing;
  missing.Input("x", {1}).Node("Add", {"x", "ghost"}, {"y"}).Output("y");
  EXPECT_THAT(missing.Error(), HasSubstr("'ghost', which nothing makes"));
  OnnxBuilder output;
  output.Input("x", {1}).Output("ghost");
  EXPECT_THAT(output.Error(), HasSubstr("output 'ghost'"));
  OnnxBuilder twice;
  twice.Input("x", {1}).Node("Relu", {"x"}, {"y"}).Node("Tanh", {"x"}, {"y"}).Output("y");
  EXPECT_THAT(twice.Error(), HasSubstr("already exists"));
  OnnxBuilder weights;
  weights.Ramp("w", {2}).Ramp("w", {2}).Node("Relu", {"w"}, {"y"}).Output("y");
  EXPECT_THAT(weights.Error(), HasSubstr("two initializers"));
  EXPECT_THAT(OnnxBuilder().Input("x", {1}).Error(), HasSubstr("no outputs"));
}

TEST(HostileOnnx, ComparesTensorSizesWithTheBytesThatAreThere) {
  OnnxBuilder b;
  b.Input("x", {1, 2}).Ramp("w", {2, 2}).Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  auto* dims = b.proto().mutable_graph()->mutable_initializer(0)->mutable_dims();
  dims->Set(0, int64_t{1} << 38);
  EXPECT_THAT(b.Error(), HasSubstr("it holds 16 bytes"));
  dims->Set(0, -2);
  EXPECT_THAT(b.Error(), HasSubstr("negative dimension"));
  dims->Set(0, int64_t{1} << 62);
  EXPECT_THAT(b.Error(), HasSubstr("too large"));
}

TEST(HostileOnnx, BoundsWhatSmallFilesMayExpandTo) {
  OnnxBuilder b;
  b.Input("x", {1}).Ints("dims", {1 << 20, 1 << 20}).Node("ConstantOfShape", {"dims"}, {"c"});
  b.Node("ReduceSum", {"c"}, {"s"}).Node("Add", {"x", "s"}, {"y"}).Output("y");
  EXPECT_THAT(b.Error(), HasSubstr("needs more than"));
  OnnxBuilder tile;
  tile.Input("x", {1, 8}).Ints("r", {int64_t{1} << 31, int64_t{1} << 31});
  tile.Node("Tile", {"x", "r"}, {"y"}).Output("y");
  EXPECT_THAT(tile.Error(), HasSubstr("too large"));
}

TEST(HostileOnnx, RefusesWrongTypesOfInputsAndAttributes) {
  OnnxBuilder attr;
  attr.Input("x", {1, 2}).Node("LeakyRelu", {"x"}, {"y"}).With("alpha", 3).Output("y");
  EXPECT_THAT(attr.Error(), HasSubstr("attribute 'alpha' has a wrong type"));
  OnnxBuilder half;
  half.Input("x", {1, 2}).Node("Relu", {"x"}, {"y"}).Output("y");
  half.proto()
      .mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->set_elem_type(model::onnx::TensorProto::FLOAT16);
  EXPECT_THAT(half.Error(), HasSubstr("FLOAT16"));
  OnnxBuilder ints;
  ints.Input("x", {1, 2}, DType::kI64).Node("Sigmoid", {"x"}, {"y"}).Output("y");
  EXPECT_FALSE(ints.Import().ok());
  OnnxBuilder arity;
  arity.Input("x", {1, 2}).Node("Conv", {"x"}, {"y"}).Output("y");
  EXPECT_THAT(arity.Error(), HasSubstr("1 inputs"));
}

TEST(HostileOnnx, RefusesSubgraphsInAnyNode) {
  OnnxBuilder b;
  b.Input("x", {1, 2}).Node("Relu", {"x"}, {"y"}).Output("y");
  auto* attr = b.proto().mutable_graph()->mutable_node(0)->add_attribute();
  attr->set_name("body");
  attr->mutable_g()->set_name("inner");
  EXPECT_EQ(b.Import().status().code(), absl::StatusCode::kUnimplemented);
}

TEST(HostileOnnx, SurvivesDeepNesting) {
  // Attribute -> graph -> node -> attribute ..., deeper than any parser should follow.
  std::string nested;
  for (int depth = 0; depth < 400 && nested.size() < 100000; ++depth) {
    model::onnx::NodeProto node;
    auto* attr = node.add_attribute();
    attr->set_name("g");
    if (!attr->mutable_g()->ParsePartialFromString(nested)) break;
    model::onnx::GraphProto graph;
    *graph.add_node() = node;
    nested = graph.SerializePartialAsString();
  }
  model::onnx::ModelProto model;
  std::string bytes = model.SerializePartialAsString();
  bytes.push_back('\x3a');  // field 7: the graph
  for (size_t size = nested.size();; size >>= 7) {
    bytes.push_back(static_cast<char>((size & 0x7f) | (size > 0x7f ? 0x80 : 0)));
    if (size <= 0x7f) break;
  }
  EXPECT_FALSE(model::ImportOnnx(bytes + nested, {}).ok());
}

class ExternalData : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(::testing::TempDir()) / "ebb_external_data";
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_ / "model");
    const std::vector<float> values = {9, 1, 2, 3, 4};
    for (const auto& path : {root_ / "model" / "w.bin", root_ / "secret.bin"}) {
      std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(values.data()), 20);
    }
    std::filesystem::create_symlink(root_ / "secret.bin", root_ / "model" / "link.bin");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  absl::StatusOr<model::ImportedModel> Import(const std::string& location,
                                              const std::string& offset = "4",
                                              bool allowed = true) const {
    OnnxBuilder b;
    b.Input("x", {1, 2}).Ramp("w", {2, 2}).Node("MatMul", {"x", "w"}, {"y"}).Output("y");
    auto* w = b.proto().mutable_graph()->mutable_initializer(0);
    w->clear_raw_data();
    w->set_data_location(model::onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] :
         {std::pair<std::string, std::string>{"location", location}, {"offset", offset}}) {
      auto* item = w->add_external_data();
      item->set_key(key);
      item->set_value(value);
    }
    ImportOptions options;
    if (allowed) options.external_data_dir = (root_ / "model").string();
    return b.Import(options);
  }

  std::filesystem::path root_;
};

TEST_F(ExternalData, IsReadFromTheGivenDirectory) {
  const auto imported = Import("w.bin");
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(imported->weights.at("w").as<float>(), ::testing::ElementsAre(1, 2, 3, 4));
}

TEST_F(ExternalData, IsRefusedOutsideOfIt) {
  EXPECT_FALSE(Import("w.bin", "4", /*allowed=*/false).ok());
  for (const std::string& location :
       {std::string("../secret.bin"), (root_ / "secret.bin").string(), std::string("link.bin"),
        std::string("a/../../secret.bin"), std::string(), std::string("."), std::string("none")}) {
    EXPECT_EQ(Import(location).status().code(), absl::StatusCode::kInvalidArgument) << location;
  }
}

TEST_F(ExternalData, IsRefusedBeyondTheFilesEnd) {
  for (const char* offset : {"8", "-4", "9223372036854775807", "four"}) {
    EXPECT_EQ(Import("w.bin", offset).status().code(), absl::StatusCode::kInvalidArgument)
        << offset;
  }
}

}  // namespace
}  // namespace ebb
