// The real ebbd and the real ebb, on a socket of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/sha256.h"
#include "tests/e2e/daemon_fixture.h"

namespace ebb::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class DaemonTest : public DaemonFixture {
 protected:
  DaemonTest() : DaemonFixture({"--memory", "256MiB"}) {}
};

TEST_F(DaemonTest, AJobIsSubmittedWatchedAndFetched) {
  const Outcome run =
      Ebb({"submit", kExamples + "/digits-mlp-adam.yaml", "--watch", "--set", "stop.epochs=5"});
  ASSERT_EQ(run.code, 0) << run.error << daemon_->error();
  EXPECT_THAT(run.output, AllOf(HasSubstr("j-"), HasSubstr("digits-mlp-adam succeeded"),
                                HasSubstr("val/accuracy")));

  const Json job = EbbJson({"show", "digits-mlp-adam"});
  EXPECT_EQ(job["state"], "succeeded");
  EXPECT_EQ(job["step"], job["total_steps"]);
  EXPECT_EQ(job["epoch"], 5);
  EXPECT_GT(job["metrics"]["val/accuracy"], 0.8);
  EXPECT_LT(job["metrics"]["val/accuracy"], 1.0);

  const std::string file = dir_.path() + "/w.safetensors";
  const Json fetched = EbbJson({"get", "digits-mlp-adam", "-o", file});
  const std::string bytes = TempDir::Read(file);
  EXPECT_EQ(fetched["bytes"], bytes.size());
  EXPECT_EQ(fetched["sha256"], Sha256Hex(bytes));
  EXPECT_EQ(Ebb({"get", "digits-mlp-adam", "--sha256"}).output, Sha256Hex(bytes) + "\n");
  const Outcome onnx =
      Ebb({"get", "digits-mlp-adam", "--format", "onnx", "-o", dir_.path() + "/w.onnx"});
  EXPECT_EQ(onnx.code, 0) << onnx.error;
  EXPECT_GT(std::filesystem::file_size(dir_.path() + "/w.onnx"), 60000u);

  // The trained model is a model: it can be submitted again.
  dir_.Write("again.yaml", TempDir::Read(kExamples + "/digits-mlp-adam.yaml"));
  const Outcome again = Ebb(
      {"submit", dir_.path() + "/again.yaml", "--watch", "--set", "model.onnx=w.onnx", "--set",
       "name=again", "--set", "stop={steps: 1}", "--set", "evaluate.every=1 steps", "--set",
       "data={train: {file: 'store:digits.csv.gz', index: 'store:digits_train.npy'}, val: {file: "
       "'store:digits.csv.gz', index: 'store:digits_test.npy'}}"});
  EXPECT_EQ(again.code, 0) << again.error;
  EXPECT_GT(EbbJson({"show", "again"})["metrics"]["val/accuracy"], 0.8);
}

TEST_F(DaemonTest, AJobThatStoppedEarlySaysSo) {
  const Outcome run = Ebb({"submit", kExamples + "/digits-mlp-adam.yaml", "--watch", "--set",
                           "stop.early={metric: val/loss, patience: 1, min_delta: 100}"});
  ASSERT_EQ(run.code, 0) << run.error;
  for (const Outcome& told : {run, Ebb({"ps"}), Ebb({"show", "digits-mlp-adam"})}) {
    EXPECT_THAT(told.output, HasSubstr("stopped early after step")) << told.error;
  }
}

TEST_F(DaemonTest, JobsGiveTheSameBitsAloneAndTogether) {
  const std::vector<std::string> short_run = {"stop={steps: 60}"};
  const auto weights_of = [&](const std::string& id) {
    EXPECT_EQ(Ebb({"watch", id}).code, 0);
    return EbbJson({"get", id, "--sha256"})["sha256"].get<std::string>();
  };
  const std::string alone = weights_of(Submit("digits-cnn-sgd", short_run));
  std::vector<std::string> ids;
  for (const char* example :
       {"digits-cnn-sgd", "digits-resnet-adam", "digits-cnn-sgd", "digits-mlp-adam"}) {
    ids.push_back(Submit(example, short_run));
  }
  EXPECT_EQ(weights_of(ids[0]), alone);
  EXPECT_EQ(weights_of(ids[2]), alone);
  EXPECT_NE(weights_of(ids[1]), alone);
  EXPECT_EQ(Ebb({"watch", ids[3]}).code, 0);
}

TEST_F(DaemonTest, ReportsAddUp) {
  const std::string a = Submit("digits-resnet-sgd");
  const std::string b = Submit("digits-cnn-adam");
  const auto stepped = [](const v1::WatchResponse& update) { return update.job().step() >= 5; };
  WatchUntil(a, stepped);
  WatchUntil(b, stepped);
  for (int i = 0; i < 20; ++i) {
    const Json memory = EbbJson({"memory"});
    int64_t sum = 0;
    for (const auto& [name, bytes] : memory["classes"].items()) sum += bytes.get<int64_t>();
    EXPECT_EQ(sum, memory["pool_bytes"]);
    EXPECT_EQ(memory["pool_bytes"], 256 << 20);
    EXPECT_FALSE(memory["lanes"].empty());
  }
  const Json list = EbbJson({"ps"});
  EXPECT_EQ(list["jobs"].size(), 2u);
  EXPECT_EQ(EbbJson({"device"})["kind"], "cpu");
  EXPECT_FALSE(EbbJson({"explain", a})["sub_models"].empty());
  for (std::vector<std::string> command : std::vector<std::vector<std::string>>{{"ps"},
                                                                                {"memory"},
                                                                                {"device"},
                                                                                {"explain", a},
                                                                                {"why", a},
                                                                                {"show", a, b},
                                                                                {"data", "ls"}}) {
    const Outcome outcome = Ebb(command);
    EXPECT_EQ(outcome.code, 0) << command[0] << outcome.error;
    EXPECT_FALSE(outcome.output.empty()) << command[0];
  }
  EXPECT_EQ(Ebb({"cancel", a, b}).code, 0);
}

TEST_F(DaemonTest, JobsArePausedChangedAndCancelled) {
  const std::string id = Submit("digits-mlp-sgd", {"stop.epochs=1e6", "name=long"});
  WatchUntil(id, [](const v1::WatchResponse& update) { return update.job().step() >= 10; });
  EXPECT_EQ(Ebb({"pause", id}).code, 0);
  WatchUntil(id, [](const v1::WatchResponse& update) {
    return update.job().state() == v1::Job::STATE_PAUSED;
  });
  EXPECT_EQ(Ebb({"rm", id}).code, 5) << "it has not ended";
  EXPECT_EQ(Ebb({"get", id, "--sha256"}).code, 5);
  EXPECT_EQ(Ebb({"resume", id}).code, 0);
  EXPECT_EQ(Ebb({"update", "long", "--lr", "0.01", "--priority", "high", "--epochs", "2e6"}).code,
            0);
  EXPECT_EQ(EbbJson({"show", id})["priority"], 10);
  EXPECT_EQ(EbbJson({"show", id})["max_in_flight"], 2);
  EXPECT_EQ(Ebb({"update", "long", "--max_in_flight", "3"}).code, 0);
  EXPECT_EQ(EbbJson({"show", id})["max_in_flight"], 3);
  EXPECT_EQ(Ebb({"update", "long", "--max_in_flight", "99"}).code, 2);
  EXPECT_EQ(Ebb({"update", "long", "--max_in_flight", "many"}).code, 2);
  Process watch({kEbb, "watch", id, "--server", socket()});
  EXPECT_EQ(Ebb({"cancel", id}).code, 0);
  EXPECT_EQ(watch.Wait(), 1) << watch.error();
  EXPECT_THAT(watch.output(), HasSubstr("long cancelled"));
  EXPECT_EQ(EbbJson({"show", id})["reason"], "cancelled");
  EXPECT_EQ(Ebb({"cancel", id}).code, 0) << "nothing happens to a job that has ended";
  EXPECT_EQ(Ebb({"rm", id}).code, 0);
  EXPECT_EQ(Ebb({"show", id}).code, 4);
}

TEST_F(DaemonTest, MistakesHaveTheirExitCodes) {
  dir_.Write("typo.yaml", "name: a\nbatchsize: 3\n");
  dir_.Write("corrupt.onnx", std::string(1000, '\x08'));
  dir_.Write("latin1.yaml", "name: a\nlabels: {place: K\xf6ln}\n");
  ASSERT_EQ(mkfifo((dir_.path() + "/fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("/etc/passwd", root_.path() + "/link");
  const std::string spec = kExamples + "/digits-mlp-adam.yaml";
  struct Case {
    std::vector<std::string> args;
    int code;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{}, 2, "Usage"},
      {{"sumbit"}, 2, "did you mean 'submit'?"},
      {{"ps", "--jsn"}, 2, "did you mean --json?"},
      {{"show"}, 2, "usage: ebb show"},
      {{"submit", dir_.path() + "/none.yaml"}, 2, "none.yaml"},
      {{"submit", dir_.path() + "/typo.yaml"},
       2,
       "typo.yaml:2:1: unknown field 'batchsize'; did you mean 'batch_size'?"},
      {{"submit", spec, "--set", "stop.epoch=1"}, 2, "did you mean 'epochs'?"},
      {{"submit", spec, "--set", "on_nan=skip_step"},
       5,
       "on_nan: skip_step is not supported by this version"},
      {{"submit", spec, "--set", "model={zoo: r18}"},
       4,
       "there is no model 'r18' in the zoo; it has"},
      {{"submit", spec, "--set", "model.onnx=" + dir_.path() + "/corrupt.onnx"}, 2, "ONNX"},
      {{"submit", spec, "--set", "model.onnx=host:/etc/passwd"}, 5, "--data_root"},
      {{"submit", spec, "--set", "model.onnx=host:" + root_.path() + "/link"}, 5, "--data_root"},
      {{"submit", spec, "--set", "model.onnx=host:" + root_.path() + "/../x"}, 5, "--data_root"},
      {{"submit", spec, "--set", "model.onnx=sha256:00112233"}, 4, "00112233"},
      {{"submit", spec, "--set", "resources.memory_max=1KiB"}, 5, ""},
      {{"submit", spec, "--set", "bind.x=nothing"}, 2, "nothing"},
      {{"submit", dir_.path() + "/latin1.yaml"}, 2, "latin1.yaml:2: this line is not UTF-8"},
      {{"submit", spec, "--set", "name=\xff"}, 2, "is not UTF-8"},
      {{"submit", spec, "--set", "model.onnx=" + dir_.path() + "/fifo"},
       2,
       "model.onnx: " + dir_.path() + "/fifo is not a regular file"},
      {{"submit", spec, dir_.path() + "/typo.yaml"}, 2, "typo.yaml"},
      {{"submit", spec, "--set", "data.train.file=" + dir_.path() + "/corrupt.onnx"},
       2,
       "data.train.file: " + dir_.path() + "/corrupt.onnx: "},
      {{"show", "\x1b[2J"}, 4, "'\\x1b[2J'"},
      {{"show", "\xff"}, 2, "job: '\\xff' is not UTF-8"},
      {{"update", "j-1", "--priority", "urgent"}, 2, "ebb: --priority urgent: 'urgent' is not"},
      {{"update", "j-1", "--steps", "1.5"}, 2, "ebb: --steps 1.5: '1.5' is not an integer"},
      {{"ps", "--label", "study"}, 2, "--label study is not of the form KEY=VALUE"},
      {{"data", "put", dir_.path() + "/fifo"}, 2, "is not a regular file"},
      {{"data", "put", dir_.path() + "/typo.yaml", "--name", "../up"}, 2, "--name ../up: a name"},
      {{"ps", "--server", "localhost:99999"}, 2, "port"},
      {{"show", "j-999"}, 4, "j-999"},
      {{"cancel", "nobody"}, 4, "nobody"},
      {{"data", "put", dir_.path() + "/none"}, 4, "none"},
      {{"data", "rm", "sha256:00112233"}, 4, ""},
      {{"data", "frobnicate"}, 2, "usage"},
      {{"ps", "--server", dir_.path() + "/nobody.sock"}, 3, "cannot reach ebbd"},
      {{"ps", "--server", "nonsense"}, 2, "nonsense"},
  };
  for (const Case& c : cases) {
    const Outcome outcome = Ebb(c.args);
    EXPECT_EQ(outcome.code, c.code)
        << absl::StrCat(c.args.empty() ? "" : c.args.back()) << ": " << outcome.error;
    EXPECT_THAT(outcome.error, HasSubstr(c.message));
  }
  // Paths of the second job are looked at before the first job is submitted.
  const std::string lost = dir_.Write("lost.yaml", "model: {onnx: lost.onnx}\n");
  EXPECT_EQ(Ebb({"submit", spec, lost}).code, 2);
  EXPECT_EQ(Ebb({"--help"}).code, 0);
  EXPECT_TRUE(EbbJson({"ps"})["jobs"].empty()) << "none of them left a job";
}

TEST_F(DaemonTest, OutputThatCannotBeWrittenIsAnError) {
  const Outcome full =
      RunProgram({"/bin/sh", "-c", kEbb + " ps > /dev/full"}, {"EBB_SERVER=" + socket()});
  EXPECT_EQ(full.code, 6);
  EXPECT_THAT(full.error, HasSubstr("cannot write the output"));
}

TEST_F(DaemonTest, WithoutStandardStreamsItsFilesStayWhatTheyAre) {
  daemon_->Signal(SIGTERM);
  EXPECT_EQ(daemon_->Wait(), 0);
  std::string command = "exec";
  for (const std::string& arg : DaemonArgs()) absl::StrAppend(&command, " '", arg, "'");
  daemon_ = std::make_unique<Process>(
      std::vector<std::string>{"/bin/sh", "-c", command + " <&- >&- 2>&-"});
  for (int i = 0; Ebb({"ps"}).code != 0 && i < 1000; ++i) {
  }
  EXPECT_EQ(
      Ebb({"submit", kExamples + "/digits-mlp-adam.yaml", "--set", "stop={steps: 1}", "--watch"})
          .code,
      0);
  for (const char* lock : {"/run/ebbd.sock.lock", "/state/lock"}) {
    EXPECT_EQ(TempDir::Read(dir_.path() + lock), absl::StrCat(daemon_->pid(), "\n")) << lock;
  }
}

TEST_F(DaemonTest, ASecondDaemonIsToldThatTheSocketIsTaken) {
  const Outcome second = RunProgram(DaemonArgs());
  EXPECT_EQ(second.code, 3);
  EXPECT_THAT(second.error, HasSubstr(absl::StrCat("another ebbd (process ", daemon_->pid(), ")")));
  std::vector<std::string> elsewhere = DaemonArgs();
  elsewhere[2] = dir_.path() + "/other.sock";
  EXPECT_EQ(RunProgram(elsewhere).code, 3) << "the state directory is taken too";
  EXPECT_EQ(Ebb({"ps"}).code, 0);
  for (const std::vector<std::string>& bad :
       std::vector<std::vector<std::string>>{{"--memroy", "1"},
                                             {"--device", "gpu"},
                                             {"--memory", "1000000GiB"},
                                             {"--host_memory", "1000000GiB"}}) {
    std::vector<std::string> args = DaemonArgs(bad);
    args[2] = dir_.path() + "/bad.sock";
    args[4] = dir_.path() + "/bad";
    const Outcome outcome = RunProgram(args);
    EXPECT_EQ(outcome.code, 2) << bad[0] << ": " << outcome.error;
    EXPECT_THAT(outcome.error, HasSubstr(bad[0]));
  }
}

TEST_F(DaemonTest, AfterAKillTheSocketIsReplacedAndFilesAreKept) {
  const std::string path = dir_.Write("kept.bin", std::string(5 << 20, 'k'));
  EXPECT_EQ(Ebb({"data", "put", path}).code, 0);
  daemon_->Signal(SIGKILL);
  EXPECT_EQ(daemon_->Wait(), 128 + SIGKILL);
  EXPECT_TRUE(std::filesystem::exists(socket()));
  daemon_ = Start();
  const Json stored = EbbJson({"data", "ls"});
  ASSERT_EQ(stored["objects"].size(), 1u);
  EXPECT_EQ(stored["objects"][0]["name"], "kept.bin");
  EXPECT_EQ(stored["objects"][0]["bytes"], 5 << 20);
}

TEST_F(DaemonTest, AClientKilledInMidUploadLeavesNothing) {
  const std::string path = dir_.path() + "/big.bin";
  std::ofstream(path).put('x');
  ASSERT_EQ(truncate(path.c_str(), 400 << 20), 0);
  Process put({kEbb, "data", "put", path, "--server", socket()});
  while (Incoming() == 0 && EbbJson({"data", "ls"})["objects"].empty()) {
  }
  put.Signal(SIGKILL);
  const int code = put.Wait();
  if (code == 0) GTEST_SKIP() << "the upload was faster than the kill";
  while (Incoming() > 0) EXPECT_EQ(Ebb({"device"}).code, 0);
  EXPECT_TRUE(EbbJson({"data", "ls"})["objects"].empty());
}

TEST_F(DaemonTest, ClientsReachItOverLoopbackTcp) {
  daemon_->Signal(SIGTERM);
  EXPECT_EQ(daemon_->Wait(), 0);
  daemon_ = Start({"--listen", "127.0.0.1:0"});
  const std::string log = daemon_->error();
  const size_t at = log.find("127.0.0.1:");
  ASSERT_NE(at, std::string::npos);
  const std::string address = log.substr(at, log.find_first_of(" \n", at) - at);
  EXPECT_EQ(Ebb({"device", "--server", address}).code, 0) << address;
  EXPECT_EQ(RunProgram({kEbbd, "--listen", "0.0.0.0:0"}).code, 2);
}

TEST_F(DaemonTest, ASignalStopsItWhileJobsRun) {
  const std::string id = Submit("digits-resnet-adam", {"stop.epochs=1e6"});
  WatchUntil(id, [](const v1::WatchResponse& update) { return update.job().step() >= 1; });
  Process watch({kEbb, "watch", id, "--server", socket()});
  daemon_->Signal(SIGINT);
  EXPECT_EQ(daemon_->Wait(), 0) << daemon_->error();
  EXPECT_NE(watch.Wait(), 0);
  daemon_ = Start();
}

}  // namespace
}  // namespace ebb::e2e
