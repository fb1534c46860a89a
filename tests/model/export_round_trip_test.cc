// The example models come back from the user's own file with every bit of the weights put in.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "model/import.h"
#include "tests/model/onnx_builder.h"
#include "tests/testing/run_graph.h"

namespace ebb {
namespace {

using graph::TensorMap;
using model::ImportOptions;

// Other bits in every weight, NaN and denormals among them.
TensorMap Changed(const TensorMap& weights) {
  TensorMap changed;
  uint64_t seed = 1;
  for (const auto& [name, tensor] : weights) {
    changed[name] = testing::RandomTensor(tensor.type, ++seed);
    if (changed[name].data.size() >= 4) changed[name].as<uint32_t>()[0] = 0x7fc00001;
  }
  return changed;
}

void ExpectSame(const TensorMap& got, const TensorMap& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, tensor] : want) {
    ASSERT_TRUE(got.contains(name)) << name;
    EXPECT_EQ(got.at(name).type, tensor.type) << name;
    EXPECT_EQ(got.at(name).data, tensor.data) << name;
  }
}

class ExampleModel : public ::testing::TestWithParam<const char*> {};

TEST_P(ExampleModel, ComesBackWithTheSameGraphAndTheNewBits) {
  const std::string file =
      testing::ReadBinary(absl::StrCat(EBB_SOURCE_DIR "/examples/models/", GetParam(), ".onnx"));
  ImportOptions options;
  options.batch_size = 4;
  const auto first = model::ImportOnnx(file, options);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_FALSE(first->weights.empty());
  const TensorMap changed = Changed(first->weights);
  const auto exported = model::ExportOnnx(file, changed);
  ASSERT_TRUE(exported.ok()) << exported.status();
  const auto second = model::ImportOnnx(*exported, options);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(ToText(second->graph), ToText(first->graph));
  ExpectSame(second->weights, changed);
  EXPECT_EQ(*model::ExportOnnx(*exported, changed), *exported) << "exporting again changes bytes";
}

INSTANTIATE_TEST_SUITE_P(All, ExampleModel, ::testing::Values("mlp", "cnn", "resnet"));

}  // namespace
}  // namespace ebb
