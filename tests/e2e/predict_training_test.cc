// How long training would take on other GPUs, and who should hold which embedding table, through
// the real ebbd and the real ebb.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/e2e/daemon_fixture.h"

namespace ebb::e2e {
namespace {

using testing::HasSubstr;

class PredictTrainingTest : public DaemonFixture {
 protected:
  PredictTrainingTest() : DaemonFixture({"--memory", "64MiB"}) {}
  std::string Path(const std::string& name) const { return dir_.path() + "/" + name; }
  static std::string Read(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  void Refused(std::vector<std::string> args, int code, const std::string& message) const {
    const Outcome run = Ebb(std::move(args));
    EXPECT_EQ(run.code, code) << run.error << run.output;
    EXPECT_THAT(run.error, HasSubstr(message));
    EXPECT_EQ(run.output, "");
  }

  const std::string spec_ = kExamples + "/digits-cnn-adam.yaml";
  const std::vector<std::string> base_ = {"predict",    spec_,       "--gpus",   "1,2,4,8",
                                          "--hardware", "a100-80gb", "--fabric", "a100-nvswitch",
                                          "--steps",    "1000",      "--price",  "2"};
};

TEST_F(PredictTrainingTest, SaysTimeCostAndWhereTheyGo) {
  const Json json = EbbJson(base_);
  EXPECT_EQ(json["steps"], 1000);
  ASSERT_EQ(json["comparisons"].size(), 4u);
  int64_t gpus = 1;
  for (const Json& one : json["comparisons"]) {
    EXPECT_EQ(one["gpus"], gpus);
    ASSERT_EQ(one["ranking"].size(), 1u) << one.dump();
    const Json& best = one["ranking"][0];
    const double step = best["step"]["median_us"];
    double parts = 0;
    for (const auto& [name, micros] : best["parts"].items()) parts += micros.get<double>();
    EXPECT_GT(step, 0);
    EXPECT_NEAR(parts, step, 1e-6 * step);
    EXPECT_LE(best["step"]["low_us"].get<double>(), step);
    EXPECT_GE(best["step"]["high_us"].get<double>(), step);
    EXPECT_FALSE(best["step"]["in_hull"].get<bool>());
    EXPECT_NEAR(best["hours"].get<double>(), step * 1000 / 3600e6, 1e-9);
    EXPECT_NEAR(best["cost"].get<double>(), 2.0 * gpus * best["hours"].get<double>(), 1e-9);
    if (gpus == 1) {
      EXPECT_EQ(best["parts"]["exposed_communication_us"], 0);
    }
    gpus *= 2;
  }
  const Outcome text = Ebb(base_);
  EXPECT_EQ(text.code, 0) << text.error;
  for (const char* part : {"data sheet of a100-80gb", "dp8", "bottleneck:", "relief:",
                           "exposed communication", "8 GPUs", "cheapest:", "1,000 steps"}) {
    EXPECT_THAT(text.output, HasSubstr(part));
  }
}

TEST_F(PredictTrainingTest, WritesAPlotAndTimelines) {
  std::vector<std::string> args = base_;
  args.insert(args.end(), {"--svg", Path("s.svg"), "--timeline", Path("t")});
  const Json json = EbbJson(args);
  EXPECT_TRUE(json["timelines"].empty());
  EXPECT_THAT(Read(Path("s.svg")), HasSubstr("</svg>"));
  for (int rank = 0; rank < 8; ++rank) {
    const Json trace =
        Json::parse(Read(Path("t.rank" + std::to_string(rank) + ".json")), nullptr, false);
    ASSERT_FALSE(trace.is_discarded()) << rank;
    EXPECT_GT(trace["traceEvents"].size(), 20u);
  }
}

TEST_F(PredictTrainingTest, ComparesStrategiesOfAJobThatIsThere) {
  const std::string job = Submit("digits-cnn-adam", {"stop={steps: 5}"});
  const Json json = EbbJson({"predict", job, "--gpus", "4", "--hardware", "h100-80gb", "--fabric",
                             "h100-nvswitch", "--strategy", "all"});
  EXPECT_EQ(json["steps"], 5);
  const Json& one = json["comparisons"][0];
  ASSERT_GT(one["ranking"].size(), 2u);
  double before = 0;
  for (const Json& report : one["ranking"]) {
    EXPECT_GE(report["step"]["median_us"].get<double>(), before);
    before = report["step"]["median_us"];
  }
  EXPECT_GE(one["expected_regret"].get<double>(), 0);
  // The same model from its file gives the same.
  const Json again = EbbJson({"predict", spec_, "--gpus", "4", "--hardware", "h100-80gb",
                              "--fabric", "h100-nvswitch", "--strategy", "all", "--steps", "5"});
  EXPECT_EQ(again["comparisons"], json["comparisons"]);
}

TEST_F(PredictTrainingTest, MistakesAreRefusedAndNobodyNotices) {
  const std::string running = Submit("digits-cnn-sgd", {"stop={epochs: 20}"});
  const auto refused = [&](std::vector<std::string> change, int code, const std::string& message) {
    std::vector<std::string> args = base_;
    args.insert(args.end(), change.begin(), change.end());
    Refused(std::move(args), code, message);
  };
  const auto bare = [&](std::vector<std::string> args, int code, const std::string& message) {
    args.insert(args.begin(), {"predict", spec_, "--hardware", "a100-80gb"});
    Refused(std::move(args), code, message);
  };
  bare({"--gpus", "0"}, 2, "gpus is 0");
  bare({"--gpus", "1000000000"}, 2, "gpus is 1000000000");
  bare({"--gpus", "many"}, 2, "'many' is no whole number");
  bare({"--gpus", "2"}, 2, "more than one GPU needs to know what joins them");
  bare({"--gpus", "16", "--fabric", "a100-nvswitch"}, 5, "");
  bare({"--gpus", "2", "--fabric", "string"}, 4, "there is no file string");
  bare({"--gpus", "1", "--price", "nan"}, 2, "price_per_gpu_hour is nan");
  refused({"--price", "3"}, 2, "2 entries for 1 kinds of hardware");
  refused({"--strategy", "dp3"}, 2, "takes 3 GPUs");
  refused({"--strategy", "magic"}, 2, "strategies");
  refused({"--set", "stop={steps: 0}", "--batch", "0"}, 2, "--batch");
  refused({"--data", "x.npz"}, 2, "--data runs a model over data");
  refused({"--job", "j-1"}, 2, "give one of them");
  Refused({"predict", spec_, "--hardware", "a100-80gb"}, 2, "--hardware goes with --gpus");
  Refused({"predict", spec_, "--gpus", "1"}, 2, "--gpus needs --hardware");
  Refused({"predict", spec_, "--gpus", "1", "--hardware", "abacus"}, 4, "no hardware 'abacus'");
  Refused({"predict", "j-77", "--gpus", "1", "--hardware", "a100-80gb"}, 4, "j-77");
  const std::string wire_only = "optimizer={lion: {lr: 1}}";
  bare({"--gpus", "1", "--set", wire_only}, 2, "lion");
  const Json job = EbbJson({"show", running});
  EXPECT_TRUE(job["state"] == "running" || job["state"] == "queued" || job["state"] == "succeeded")
      << job.dump();
  WatchUntil(running, [](const v1::WatchResponse& update) {
    return update.job().state() == v1::Job::STATE_SUCCEEDED;
  });
  EXPECT_EQ(EbbJson({"show", running})["state"], "succeeded");
}

TEST_F(PredictTrainingTest, ShardsTablesOfAFile) {
  dir_.Write("tables.yaml", R"(
batch_size: 65536
tables:
- {name: users, rows: 10000000, width: 64, skew: 1.05}
- {name: items, rows: 2000000, width: 64, pooling: 20, skew: 0.8}
- {name: words, rows: 500000, width: 128, pooling: 50}
- {name: towns, rows: 1000, width: 16}
)");
  const std::vector<std::string> args = {"shard",    Path("tables.yaml"), "--ranks",
                                         "4",        "--hardware",        "a100-80gb",
                                         "--fabric", "a100-nvswitch"};
  const Json json = EbbJson(args);
  ASSERT_EQ(json["placements"].size(), 4u);
  ASSERT_EQ(json["ranks"].size(), 4u);
  EXPECT_EQ(json["placements"][0]["table"], "users");
  EXPECT_GT(json["step_us"].get<double>(), json["exchange_us"].get<double>());
  EXPECT_GE(json["imbalance"].get<double>(), 1.0);
  const Outcome text = Ebb(args);
  EXPECT_EQ(text.code, 0) << text.error;
  for (const char* part : {"users", "imbalance", "of the step", "A100", "extrapolated"}) {
    EXPECT_THAT(text.output, HasSubstr(part));
  }
}

TEST_F(PredictTrainingTest, TablesThatAreNoneAreRefused) {
  const auto refused = [&](const std::string& text, int code, const std::string& message) {
    dir_.Write("bad.yaml", text);
    Refused({"shard", Path("bad.yaml"), "--ranks", "2", "--hardware", "a100-80gb", "--fabric",
             "a100-nvswitch"},
            code, message);
  };
  refused("batch_size: 8\ntables: [{rows: 0, width: 4}]\n", 2, "tables[0].rows is 0");
  refused("batch_size: 8\ntables: []\n", 2, "tables is 0");
  refused("tables: [{rows: 4, width: 4}]\n", 2, "batch_size is 0");
  refused("batch_size: 8\ntables: [{rows: 4, with: 4}]\n", 2, "bad.yaml:2:");
  refused("batch_size: 8\ntables: [{rows: 10000000000, width: 1000}]\n", 5, "do not fit");
  refused("- 1\n", 2, "a file of tables is a mapping");
  refused(std::string(5 << 20, ' '), 2, "the file is too large");
  refused("a: &a [1,2]\nb: &b [*a,*a]\ntables: [", 2, "bad.yaml:");
  Refused({"shard", Path("none.yaml"), "--ranks", "2"}, 4, "none.yaml");
}

TEST_F(PredictTrainingTest, CalibratesKernelsFromAFile) {
  dir_.Write("none.jsonl", "");
  Refused({"calibrate", Path("none.jsonl"), "--hardware", "a100-80gb", "-o", Path("m.json")}, 2,
          "there are none");
  Refused({"calibrate", Path("none.jsonl")}, 2, "--hardware");
  dir_.Write("bad.json", "{}");
  std::vector<std::string> args = base_;
  args.insert(args.end(), {"--calibration", Path("bad.json")});
  Refused(args, 2, "calibrations[0]");
}

}  // namespace
}  // namespace ebb::e2e
