// Outputs of trained models over data sets, through the real ebbd and the real ebb.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "data/dataset.h"
#include "graph/graph.h"
#include "model/safetensors.h"
#include "tests/e2e/daemon_fixture.h"

namespace ebb::e2e {
namespace {

using testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class PredictTest : public DaemonFixture {
 protected:
  PredictTest() : DaemonFixture({"--memory", "64MiB"}) {}
  std::string Path(const std::string& name) const { return dir_.path() + "/" + name; }
  graph::TensorMap Read(const std::string& path) const {
    const auto tensors = model::ReadSafetensors(ReadFile(path));
    EXPECT_TRUE(tensors.ok()) << tensors.status();
    return tensors.ok() ? *tensors : graph::TensorMap();
  }
  // A trained perceptron.
  std::string Train() const {
    const std::string id = Submit("digits-mlp-adam", {"stop={epochs: 3}"});
    EXPECT_EQ(Ebb({"watch", id}).code, 0);
    return id;
  }

  const std::string spec_ = kExamples + "/digits-mlp-adam.yaml";
};

TEST_F(PredictTest, AClassifiersLogitsHaveTheAccuracyThatItsJobHasMeasured) {
  const std::string job = Train();
  const std::string out = Path("logits.safetensors");
  const Outcome run = Ebb({"predict", spec_, "--job", job, "-o", out});
  ASSERT_EQ(run.code, 0) << run.error << daemon_->error();
  const auto set = data::ParseDataSet(ReadFile(kExamples + "/data/digits.csv.gz"));
  const auto rows = data::ParseIndex(ReadFile(kExamples + "/data/digits_test.npy"));
  ASSERT_TRUE(set.ok() && rows.ok());
  const auto labels = (*set)->fields().at("label").as<int64_t>();
  const graph::TensorMap outputs = Read(out);
  ASSERT_EQ(outputs.size(), 1u);
  const graph::HostTensor& logits = outputs.at("logits");
  ASSERT_EQ(logits.type.shape, (graph::Shape{static_cast<int64_t>(rows->size()), 10}));
  int correct = 0;
  for (size_t i = 0; i < rows->size(); ++i) {
    const float* row = logits.as<float>().data() + 10 * i;
    correct += std::max_element(row, row + 10) - row == labels[static_cast<size_t>((*rows)[i])];
  }
  const double measured = EbbJson({"show", job})["metrics"]["val/accuracy"];
  EXPECT_NEAR(correct / static_cast<double>(rows->size()), measured, 1e-6);
  EXPECT_GT(measured, 0.8);
}

TEST_F(PredictTest, RowsOfAFileWithoutLabelsAndLessThanABatch) {
  const std::string job = Train();
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 64), }";
  header.resize(117, ' ');
  header += '\n';
  std::string npy = std::string("\x93NUMPY\x01\x00", 8) +
                    std::string(1, static_cast<char>(header.size())) + std::string(1, '\0') +
                    header;
  std::vector<float> pixels(5 * 64);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i * 7 % 17);
  npy.append(reinterpret_cast<const char*>(pixels.data()), pixels.size() * sizeof(float));
  dir_.Write("rows.npy", npy);
  const auto predict = [&](const std::string& out, const std::string& batch) {
    const Outcome run = Ebb({"predict", spec_, "--job", job, "--data", Path("rows.npy"), "--set",
                             "bind.x=data", "--set", "batch_size=" + batch, "-o", Path(out)});
    EXPECT_EQ(run.code, 0) << run.error;
    return Read(Path(out)).at("logits");
  };
  const graph::HostTensor logits = predict("a", "64");
  EXPECT_EQ(logits.type.shape, (graph::Shape{5, 10}));
  const graph::HostTensor small = predict("b", "2");
  ASSERT_EQ(small.type.shape, (graph::Shape{5, 10}));
  for (size_t i = 0; i < 50; ++i) {
    EXPECT_NEAR(logits.as<float>()[i], small.as<float>()[i], 1e-3) << i;
  }
  // The same bits beside a job that trains.
  const std::string other = Submit("digits-cnn-sgd", {"stop={epochs: 50}"});
  EXPECT_EQ(predict("c", "64").data, logits.data);
  Ebb({"cancel", other});
}

TEST_F(PredictTest, MistakesAreRefused) {
  const auto refused = [&](std::vector<std::string> args, int code, const std::string& message) {
    args.insert(args.begin(), {"predict", spec_});
    const Outcome run = Ebb(args);
    EXPECT_EQ(run.code, code) << run.error;
    EXPECT_THAT(run.error, HasSubstr(message));
  };
  refused({"--outputs", "probabilities"}, 2,
          "predict.outputs: 'probabilities' is no output of the model; it has: 'logits'");
  refused({"--outputs", "logits,logits"}, 2, "named twice");
  refused({"--data", Path("none.npz")}, 4, "none.npz");
  refused({"-o", Path("none/x")}, 4, "none/x");
  refused({"--job", "j-77"}, 4, "j-77");
  refused({"--job", "j-1", "--weights", "w"}, 2, "not both");
  graph::TensorMap some;
  some["body.0.bias"] = graph::HostTensor::Zeros({graph::DType::kF32, {128}});
  dir_.Write("some.safetensors", model::WriteSafetensors(some));
  refused({"--weights", Path("some.safetensors")}, 2, "lacks 5 of the model's 6");
  const Outcome both =
      Ebb({"submit", spec_, "--set", "predict={data: {file: data/digits.csv.gz}}"});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.error, HasSubstr("a job either predicts or trains; remove data"));
  const std::string running = Submit("digits-cnn-sgd", {"stop={epochs: 500}"});
  refused({"--job", running}, 5, "only a job that has succeeded has a result");
  Ebb({"cancel", running});
}

TEST_F(PredictTest, WeightsThatNothingHasTrainedAreRefused) {
  const auto refused = [&](std::vector<std::string> args, const std::string& message) {
    args.insert(args.begin(), {"predict", spec_});
    const Outcome run = Ebb(args);
    EXPECT_EQ(run.code, 2) << run.error;
    EXPECT_THAT(run.error, HasSubstr(message));
  };
  refused({"--set", "model.reinit=[{match: \"*\", init: default}]"},
          "ebb predict --job or --weights");
  const Outcome trained = Ebb({"predict", spec_, "--job", Train(), "--set",
                               "model.reinit=[{match: \"*\", init: default}]", "-o", Path("a")});
  EXPECT_EQ(trained.code, 0) << trained.error;
}

TEST_F(PredictTest, ErrorsNameFilesAsTheyWereGiven) {
  dir_.Write("bad.safetensors", "x");
  dir_.Write("bad.npz", "x");
  for (const char* flag : {"--weights", "--data"}) {
    const std::string path = Path(std::string(flag) == "--data" ? "bad.npz" : "bad.safetensors");
    const Outcome run = Ebb({"predict", spec_, flag, path});
    EXPECT_EQ(run.code, 2) << run.error;
    EXPECT_THAT(run.error, HasSubstr(path));
    EXPECT_THAT(run.error, testing::Not(HasSubstr("sha256")));
  }
}

TEST_F(PredictTest, ASignalCancelsItsJobAndSaysSo) {
  ::signal(SIGINT, SIG_DFL);  // a shell's background commands ignore it, and so would ebb
  for (const int signal : {SIGINT, SIGTERM}) {
    // All rows, one at a time, take seconds.
    Process predict({kEbb, "predict", kExamples + "/digits-resnet-adam.yaml", "--set",
                     "batch_size=1", "--data", kExamples + "/data/digits.csv.gz", "-o", Path("out"),
                     "--server", socket()});
    ASSERT_TRUE(predict.AwaitError("-predict")) << predict.error();
    predict.Signal(signal);
    EXPECT_EQ(predict.Wait(), 1) << predict.error();
    EXPECT_THAT(predict.error(), HasSubstr("ebb: interrupted: j-"));
    EXPECT_FALSE(std::filesystem::exists(Path("out")));
  }
  const Json jobs = EbbJson({"ps"})["jobs"];
  EXPECT_EQ(jobs.size(), 2u);
  for (const Json& job : jobs) EXPECT_EQ(job["state"], "cancelled");
}

TEST_F(PredictTest, TheResultIsNoSetOfWeights) {
  const Outcome run = Ebb({"predict", spec_, "-o", Path("out"), "--json"});
  ASSERT_EQ(run.code, 0) << run.error;
  const std::string job = Json::parse(run.output)["job"];
  const Outcome onnx = Ebb({"get", job, "--format", "onnx", "-o", Path("x")});
  EXPECT_EQ(onnx.code, 5);
  EXPECT_THAT(onnx.error, HasSubstr("its result are outputs"));
  EXPECT_EQ(EbbJson({"get", job, "--sha256"})["sha256"], Json::parse(run.output)["sha256"]);
}

}  // namespace
}  // namespace ebb::e2e
