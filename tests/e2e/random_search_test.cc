// ebb-random-search against a real ebbd.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/daemon/temp_dir.h"
#include "tests/e2e/process.h"

namespace ebb::e2e {
namespace {

using testing::HasSubstr;

class RandomSearchTest : public testing::Test {
 protected:
  void SetUp() override { EXPECT_TRUE(daemon_.AwaitError("ready on")) << daemon_.error(); }
  void TearDown() override {
    daemon_.Signal(SIGTERM);
    EXPECT_EQ(daemon_.Wait(), 0) << daemon_.error();
  }
  Outcome Search(std::vector<std::string> flags) const {
    std::vector<std::string> argv = {absl::StrCat(EBB_BINARY_DIR, "/bin/ebb-random-search"),
                                     "--spec",
                                     absl::StrCat(EBB_SOURCE_DIR, "/examples/digits-mlp-sgd.yaml")};
    argv.insert(argv.end(), flags.begin(), flags.end());
    return RunProgram(std::move(argv), {"EBB_SERVER=" + dir_.path() + "/s"});
  }
  // The table's rows, split into cells.
  static std::vector<std::vector<std::string>> Rows(const std::string& output) {
    std::vector<std::vector<std::string>> rows;
    bool in_table = false;
    for (const absl::string_view line : absl::StrSplit(output, '\n', absl::SkipEmpty())) {
      if (in_table) rows.push_back(absl::StrSplit(line, ' ', absl::SkipEmpty()));
      in_table |= absl::StrContains(line, "BEST");
    }
    return rows;
  }

  TempDir dir_;
  Process daemon_{{absl::StrCat(EBB_BINARY_DIR, "/bin/ebbd"), "--socket", dir_.path() + "/s",
                   "--state_dir", dir_.path() + "/state", "--memory", "16MiB"}};
};

TEST_F(RandomSearchTest, RunsAllTrialsOfAllModelsAndSortsThem) {
  const Outcome outcome =
      Search({"--trials", "6", "--parallel", "3", "--seed", "4", "--set", "stop.epochs=2",
              "--model", "models/mlp.onnx", "--model", "models/cnn.onnx"});
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  const auto rows = Rows(outcome.output);
  ASSERT_EQ(rows.size(), 6) << outcome.output;
  double before = 1;
  for (const auto& row : rows) {
    double accuracy = 0;
    ASSERT_TRUE(absl::SimpleAtod(row[0], &accuracy)) << outcome.output;
    EXPECT_LE(accuracy, before) << outcome.output;
    before = accuracy;
    EXPECT_EQ(row.back(), "succeeded") << outcome.output;  // two evaluations: too few to judge
  }
  EXPECT_THAT(outcome.output, HasSubstr("models/mlp.onnx"));
  EXPECT_THAT(outcome.output, HasSubstr("models/cnn.onnx"));
}

TEST_F(RandomSearchTest, GivesUpTrialsThatFallBehind) {
  const Outcome outcome = Search({"--trials", "12", "--parallel", "1", "--set", "stop.epochs=4"});
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  const auto rows = Rows(outcome.output);
  ASSERT_EQ(rows.size(), 12) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("stopped early"));
  EXPECT_EQ(rows[0].back(), "succeeded") << outcome.output;
}

TEST_F(RandomSearchTest, SaysWhyEveryTrialWasRefused) {
  const Outcome outcome =
      Search({"--trials", "2", "--set", "batch_size=1437", "--model", "models/resnet.onnx"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("refused: never: needs"));
  EXPECT_THAT(outcome.error, HasSubstr("no trial reported val/accuracy"));
}

}  // namespace
}  // namespace ebb::e2e
