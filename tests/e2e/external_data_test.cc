// ONNX files that keep their weights in files beside them, as PyTorch's exporter writes them,
// through the real ebbd and the real ebb.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "model/safetensors.h"
#include "tests/e2e/daemon_fixture.h"
#include "tests/model/onnx_builder.h"

namespace ebb::e2e {
namespace {

using graph::DType;
using graph::HostTensor;
using ::testing::HasSubstr;

testing::OnnxBuilder Model() {
  testing::OnnxBuilder b;
  b.Input("x", {testing::kDynamic, 3}).Ramp("w", {2, 3}).Ramp("bias", {2});
  b.Node("Gemm", {"x", "w", "bias"}, {"logits"}).With("transB", 1).Output("logits");
  return b;
}

class ExternalDataTest : public DaemonFixture {
 protected:
  ExternalDataTest() : DaemonFixture({"--memory", "64MiB"}) {
    std::filesystem::create_directories(absl::StrCat(dir_.path(), "/models"));
    graph::TensorMap rows;
    rows["x"] = HostTensor::Of<float>(DType::kF32, {4, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1});
    rows["label"] = HostTensor::Of<int64_t>(DType::kI64, {4}, {0, 1, 0, 1});
    dir_.Write("rows.safetensors", model::WriteSafetensors(rows));
  }

  // The model with its weights, one after the other, in the file that `location` names.
  void WriteModel(const std::string& location) const {
    testing::OnnxBuilder b = Model();
    std::string bytes = "head";  // what is before the first offset belongs to nobody
    for (auto& tensor : *b.proto().mutable_graph()->mutable_initializer()) {
      const auto add = [&](const char* key, const std::string& value) {
        auto* item = tensor.add_external_data();
        item->set_key(key);
        item->set_value(value);
      };
      add("location", location);
      add("offset", absl::StrCat(bytes.size()));
      add("length", absl::StrCat(tensor.raw_data().size()));
      bytes += tensor.raw_data();
      tensor.clear_raw_data();
      tensor.set_data_location(model::onnx::TensorProto::EXTERNAL);
    }
    dir_.Write("models/m.onnx", b.Bytes());
    dir_.Write("models/m.onnx.data", bytes);
  }

  std::string Spec() const {
    return dir_.Write("job.yaml",
                      "model: {onnx: models/m.onnx}\nbatch_size: 4\ndata: {train: {file: "
                      "rows.safetensors}}\nloss: cross_entropy\noptimizer: {sgd: {lr: 0.1}}\n"
                      "stop: {steps: 3}\nmetrics: loss\nseed: 1\n");
  }
  double LossOf(const std::string& name) const {
    const Outcome run = Ebb({"submit", Spec(), "--watch", "--set", absl::StrCat("name=", name)});
    EXPECT_EQ(run.code, 0) << run.error << daemon_->error();
    return EbbJson({"show", name})["metrics"]["train/loss"];
  }
};

TEST_F(ExternalDataTest, AreSentAlongAndGiveTheSameBits) {
  dir_.Write("models/m.onnx", Model().Bytes());
  const double inside = LossOf("inside");
  EXPECT_GT(inside, 0);
  WriteModel("m.onnx.data");
  EXPECT_EQ(LossOf("beside"), inside);
}

TEST_F(ExternalDataTest, ThatAreMissingOrElsewhereAreRefusedByName) {
  WriteModel("m.onnx.data");
  std::filesystem::remove(absl::StrCat(dir_.path(), "/models/m.onnx.data"));
  const Outcome missing = Ebb({"submit", Spec()});
  EXPECT_EQ(missing.code, 2) << missing.error;
  EXPECT_THAT(missing.error, HasSubstr("model.onnx keeps weights in m.onnx.data"));
  for (const char* location : {"../rows.safetensors", "/etc/passwd"}) {
    WriteModel(location);
    const Outcome elsewhere = Ebb({"submit", Spec()});
    EXPECT_EQ(elsewhere.code, 2) << elsewhere.error;
    EXPECT_THAT(elsewhere.error, HasSubstr("no path inside its directory"));
  }
}

// A file of the wrong size, or for a model that has none.
TEST_F(ExternalDataTest, ThatDoNotFitAreRefused) {
  WriteModel("m.onnx.data");
  dir_.Write("models/m.onnx.data", "short");
  const Outcome small = Ebb({"submit", Spec()});
  EXPECT_EQ(small.code, 2) << small.error;
  EXPECT_THAT(small.error, HasSubstr("external data file 'm.onnx.data' has 5 bytes"));
  const Outcome zoo = Ebb({"submit", Spec(), "--set", "model={zoo: resnet50}", "--set",
                           "model.external_data={a: rows.safetensors}"});
  EXPECT_EQ(zoo.code, 2) << zoo.error;
}

}  // namespace
}  // namespace ebb::e2e
