// The real ebbd on a simulated GPU, and every command of the real ebb against it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "tests/e2e/daemon_fixture.h"

namespace ebb::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class SimTest : public DaemonFixture {
 protected:
  SimTest() : DaemonFixture({"--device", "sim:v100-16gb"}) {}

  // A job file without data for one of the example's networks.
  std::string Bare(const std::string& name, const std::string& model, int64_t steps) const {
    return dir_.Write(name + ".yaml",
                      absl::StrCat("name: ", name, "\nmodel: {onnx: ", kExamples, "/models/", model,
                                   ".onnx}\nbatch_size: 2048\nloss: cross_entropy\n",
                                   "optimizer: {sgd: {lr: 0.1, momentum: 0.9}}\n",
                                   "stop: {steps: ", steps, "}\n"));
  }
  static int64_t Sum(const Json& classes) {
    int64_t sum = 0;
    for (const auto& [name, bytes] : classes.items()) sum += bytes.get<int64_t>();
    return sum;
  }
};

constexpr int64_t kForEver = int64_t{1} << 40;

TEST_F(SimTest, TheDeviceSaysWhatItIsAndWhereItsConstantsComeFrom) {
  const Json device = EbbJson({"device"});
  EXPECT_EQ(device["kind"], "sim");
  EXPECT_EQ(device["simulated"], true);
  EXPECT_EQ(device["profile"], "v100-16gb");
  EXPECT_EQ(device["overlap_model"], "slots");
  const std::string text = TempDir::Read(absl::StrCat(EBB_SOURCE_DIR, "/sim/v100-16gb.yaml"));
  EXPECT_EQ(device["constants_sha256"], Sha256Hex(text));
  EXPECT_EQ(device["pool_bytes"], int64_t{15} << 30) << "all of the device's";
  EXPECT_EQ(device["pool_bytes"], device["memory_bytes"]);
  EXPECT_THAT(Ebb({"device"}).output,
              AllOf(HasSubstr("simulated"), HasSubstr("overlap model slots"),
                    HasSubstr(Sha256Hex(text)), HasSubstr("11 TFLOP/s, 720 GB/s")));
}

TEST_F(SimTest, AJobRunsToItsEndAndHasNoLossAndNoResult) {
  const Outcome run =
      Ebb({"submit", kExamples + "/digits-cnn-sgd.yaml", "--watch", "--set", "stop.epochs=3"});
  EXPECT_EQ(run.code, 0) << run.error << daemon_->error();
  EXPECT_THAT(run.output, AllOf(HasSubstr("digits-cnn-sgd succeeded at step 66"),
                                Not(HasSubstr("loss")), Not(HasSubstr("accuracy"))));
  const Json job = EbbJson({"show", "digits-cnn-sgd"});
  EXPECT_TRUE(job["metrics"].empty());
  EXPECT_EQ(job["epoch"], 3);
  EXPECT_GT(job["elapsed"].get<double>(), 66 * 200e-6) << "the host's work of every step";
  EXPECT_THAT(Ebb({"show", "digits-cnn-sgd"}).output,
              AllOf(HasSubstr("device time"), Not(HasSubstr("loss"))));
  for (const char* format : {"safetensors", "onnx"}) {
    const Outcome get =
        Ebb({"get", "digits-cnn-sgd", "--format", format, "-o", dir_.path() + "/w"});
    EXPECT_EQ(get.code, 5);
    EXPECT_THAT(get.error, HasSubstr("simulated device, which computes no values"));
    EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/w"));
  }
  EXPECT_EQ(Ebb({"rm", "digits-cnn-sgd"}).code, 0);
}

TEST_F(SimTest, TheSameJobAloneTakesTheSameTimeAgain) {
  std::vector<double> times;
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(Ebb({"submit", Bare(absl::StrCat("run", run), "resnet", 40), "--watch"}).code, 0);
    times.push_back(EbbJson({"show", absl::StrCat("run", run)})["elapsed"].get<double>());
  }
  EXPECT_GT(times[0], 0);
  EXPECT_NEAR(times[0], times[1], 2e-6);  // stamps are whole microseconds
}

TEST_F(SimTest, EveryCommandWorksOnJobsWithoutData) {
  for (const char* model : {"cnn", "resnet"}) {
    const Outcome submit = Ebb({"submit", Bare(model, model, kForEver)});
    EXPECT_EQ(submit.code, 0) << submit.error;
    WatchUntil(model, [](const v1::WatchResponse& update) {
      return update.job().step() >= 5 && update.job().steps_per_second() > 0;
    });
  }
  const Json memory = EbbJson({"memory"});
  EXPECT_EQ(Sum(memory["classes"]), memory["pool_bytes"]);
  EXPECT_GT(memory["classes"]["staging"], 0);  // the batches that are copied ahead
  EXPECT_GT(memory["host"]["staging"], 0);
  EXPECT_GT(memory["overlap"]["concurrent_us"], 0);
  EXPECT_EQ(EbbJson({"ps"})["jobs"].size(), 2u);
  EXPECT_FALSE(EbbJson({"explain", "cnn"})["sub_models"].empty());
  EXPECT_GT(EbbJson({"show", "cnn"})["steps_per_second"], 0);
  for (const std::vector<std::string>& command : {std::vector<std::string>{"ps"},
                                                  {"memory"},
                                                  {"explain", "cnn"},
                                                  {"why", "cnn"},
                                                  {"show", "cnn"},
                                                  {"data", "put", dir_.Write("a.bin", "abc")},
                                                  {"data", "ls"}}) {
    const Outcome outcome = Ebb(command);
    EXPECT_EQ(outcome.code, 0) << command[0] << ": " << outcome.error;
    EXPECT_FALSE(outcome.output.empty()) << command[0];
  }

  EXPECT_EQ(Ebb({"pause", "cnn"}).code, 0);
  WatchUntil("cnn", [](const v1::WatchResponse& update) {
    return update.job().state() == v1::Job::STATE_PAUSED;
  });
  EXPECT_EQ(Ebb({"resume", "cnn"}).code, 0);
  EXPECT_EQ(Ebb({"update", "cnn", "--lr", "0.01", "--priority", "high"}).code, 0);
  const Outcome epochs = Ebb({"update", "cnn", "--epochs", "2"});
  EXPECT_EQ(epochs.code, 2);
  EXPECT_THAT(epochs.error, HasSubstr("no epochs"));
  EXPECT_EQ(Ebb({"cancel", "resnet"}).code, 0);
  EXPECT_EQ(Ebb({"watch", "resnet"}).code, 1);
  const Outcome past = Ebb({"update", "cnn", "--steps", "2"});
  EXPECT_EQ(past.code, 0) << past.error;
  EXPECT_THAT(past.output, HasSubstr(" cnn updated: it ends at its step "));
  EXPECT_EQ(Ebb({"watch", "cnn"}).code, 0);
  EXPECT_EQ(Ebb({"rm", "cnn"}).code, 0);
  const Json idle = EbbJson({"memory"});
  EXPECT_EQ(idle["classes"]["free"], idle["pool_bytes"]);
}

TEST_F(SimTest, AnEstimateSaysWhatASubmitWouldAndTheBatchMayBeLeftToTheDaemon) {
  const std::string spec = dir_.Write("zoo.yaml",
                                      "model: {zoo: resnet50}\nbatch_size: 64\n"
                                      "loss: cross_entropy\noptimizer: {sgd: {lr: 0.1}}\n"
                                      "data: {train: {file: not-there.npz}}\n"
                                      "stop: {steps: 1000000}\n");
  const Outcome text = Ebb({"estimate", spec, "--device", "live", "--device", "sim:v100-16gb"});
  EXPECT_EQ(text.code, 0) << text.error;
  EXPECT_THAT(text.output, HasSubstr("step alone (predicted)"));
  EXPECT_THAT(text.output, HasSubstr("sim:v100-16gb: fits now: it needs "));
  const Json one = EbbJson({"estimate", spec})["estimates"][0];
  EXPECT_EQ(one["verdict"], "fits_now");
  EXPECT_EQ(one["batch_size"], 64);
  EXPECT_TRUE(EbbJson({"ps"})["jobs"].empty());

  // Two zoo jobs without data, the second as large as it may be beside the first.
  const std::string free = dir_.Write("free.yaml",
                                      "model: {zoo: resnet50}\nbatch_size: auto\n"
                                      "loss: cross_entropy\noptimizer: {sgd: {lr: 0.1}}\n"
                                      "stop: {steps: 1000000000}\n");
  ASSERT_EQ(Ebb({"submit", spec, "--set", "data={}", "--set", "name=first", "--set",
                 "stop.steps=1000000000"})
                .code,
            0);
  const Json now = EbbJson({"estimate", free})["estimates"][0];
  const Outcome submitted = Ebb({"submit", free});
  EXPECT_EQ(submitted.code, 0) << submitted.error;
  EXPECT_THAT(submitted.output,
              HasSubstr("j-2 free, batch_size " + std::to_string(now["batch_size"].get<int>())));
  EXPECT_EQ(EbbJson({"show", "free"})["batch_size"], now["batch_size"]);
  WatchUntil("free", [](const v1::WatchResponse& update) { return update.job().step() > 3; });
  EXPECT_EQ(EbbJson({"show", "first"})["state"], "running");
  const Outcome never = Ebb({"estimate", spec, "--set", "batch_size=4000"});
  EXPECT_EQ(never.code, 5);
  EXPECT_THAT(never.output, HasSubstr("live: never: needs at least "));
  EXPECT_EQ(Ebb({"estimate", spec, "--device", "gpu"}).code, 2);
  EXPECT_THAT(Ebb({"estimate", spec, "--set", "model.zoo=resnet18"}).error,
              HasSubstr("there is no model 'resnet18'"));
  EXPECT_EQ(Ebb({"estimate", dir_.path() + "/none.yaml"}).code, 2);
}

TEST_F(SimTest, WhatCannotBeIsRefusedInWords) {
  const std::string spec = Bare("bare", "cnn", 10);
  struct Case {
    std::vector<std::string> sets;
    int code;
    std::string message;
  };
  for (const Case& c :
       std::vector<Case>{{{"stop={epochs: 1}"}, 2, "no epochs"},
                         {{"stop={samples: 10}"}, 2, "give steps"},
                         {{"batch_size=4000000"}, 5, "largest batch_size that fits: "},
                         {{"data={train: {}}"}, 2, "data.train needs file"},
                         {{"model.reinit={nobody: ones}"}, 2, "nobody"}}) {
    std::vector<std::string> args = {"submit", spec};
    for (const std::string& set : c.sets) args.insert(args.end(), {"--set", set});
    const Outcome outcome = Ebb(args);
    EXPECT_EQ(outcome.code, c.code) << c.sets[0] << ": " << outcome.error;
    EXPECT_THAT(outcome.error, HasSubstr(c.message)) << c.sets[0];
  }
  EXPECT_TRUE(EbbJson({"ps"})["jobs"].empty());
  for (const auto& [device, message] : std::vector<std::pair<std::string, std::string>>{
           {"sim:nothing", "v100-16gb"},
           {"sim:v100-16gb+both", "slots or vector"},
           {"sim:" + dir_.Write("bad.yaml", "name: x\npeak: 3\n"), "bad.yaml:2: peak"}}) {
    const Outcome outcome = RunProgram({kEbbd, "--socket", dir_.path() + "/t", "--state_dir",
                                        dir_.path() + "/other", "--device", device});
    EXPECT_NE(outcome.code, 0);
    EXPECT_THAT(outcome.error, HasSubstr(message));
  }
}

}  // namespace
}  // namespace ebb::e2e
