// Jobs fed through the real ebbd by the real ebb.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/e2e/daemon_fixture.h"

namespace ebb::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kDigits = kExamples + "/data/digits.csv.gz";
constexpr char kFeed[] =
    "data.train={feed: client, schema: {x: 'f32[64]', label: i64}, feed_timeout: 1m}";

class FeedTest : public DaemonFixture {
 protected:
  FeedTest() : DaemonFixture({"--memory", "64MiB"}) {}
  std::string SubmitFed(std::vector<std::string> sets = {}) const {
    sets.insert(sets.begin(), {kFeed, "stop={steps: 60}", "evaluate.every=20 steps"});
    return Submit("digits-mlp-adam", sets);
  }
  // A file of rows that fit the model.
  std::string Rows(const std::string& name, int rows, int label) const {
    const std::string path = dir_.path() + "/" + name;
    std::ofstream file(path);
    for (int row = 0; row < rows; ++row) {
      for (int i = 0; i < 64; ++i) file << i << ",";
      file << label << "\n";
    }
    return path;
  }
  std::string HashOf(const std::string& job) const {
    EXPECT_EQ(Ebb({"watch", job}).code, 0);
    return EbbJson({"get", job, "--sha256"})["sha256"].get<std::string>();
  }
};

TEST_F(FeedTest, FilesThatArePushedGiveTheWeightsOfFilesThatAreRead) {
  const std::string read =
      Submit("digits-mlp-adam", {"data.train={file: data/digits.csv.gz}", "stop={steps: 60}"});
  const std::string fed = SubmitFed();
  // The job file's seed.data.
  const Outcome feed = Ebb({"feed", fed, kDigits, "--epochs", "9", "--shuffle", "2"});
  EXPECT_EQ(feed.code, 0) << feed.error;
  EXPECT_THAT(feed.output, HasSubstr(fed + " succeeded at step 60 after 60 batches of 64 rows"));
  EXPECT_EQ(HashOf(fed), HashOf(read));
  const std::string other = SubmitFed();
  EXPECT_EQ(Ebb({"feed", other, kDigits, "--epochs", "9", "--shuffle", "3"}).code, 0);
  EXPECT_NE(HashOf(other), HashOf(read));
}

TEST_F(FeedTest, AFeederThatIsKilledAndStartedAgainChangesNothing) {
  const std::string whole = SubmitFed({"stop={steps: 400}"});
  EXPECT_EQ(Ebb({"feed", whole, kDigits, "--epochs", "20", "--shuffle", "2"}).code, 0);
  const std::string broken = SubmitFed({"stop={steps: 400}"});
  Ebb({"pause", broken});  // so that the feeder is held back, and killed in the middle
  {
    Process feeder({kEbb, "feed", broken, kDigits, "--epochs", "20", "--shuffle", "2"},
                   {"EBB_SERVER=" + socket()});
    Ebb({"resume", broken});
    WatchUntil(broken, [](const auto& update) { return update.job().step() >= 20; });
    feeder.Signal(SIGKILL);
    feeder.Wait();
  }
  const Outcome again = Ebb({"feed", broken, kDigits, "--epochs", "20", "--shuffle", "2"});
  EXPECT_EQ(again.code, 0) << again.error;
  EXPECT_EQ(HashOf(broken), HashOf(whole));
}

TEST_F(FeedTest, AJobSaysWhatItWaitsForAndEndsWithItsFeed) {
  const std::string job = SubmitFed();
  const auto waits_for = [&](const std::string& batch) {
    WatchUntil(job, [&](const auto& update) {
      return update.job().why().find("waits for data from its client (batch " + batch) !=
             std::string::npos;
    });
    return Ebb({"why", job}).output;
  };
  EXPECT_THAT(waits_for("0"), HasSubstr("feed not connected yet"));
  EXPECT_THAT(Ebb({"ps"}).output, HasSubstr("waits for data from its client (batch 0; "));
  const Outcome part = Ebb({"feed", job, kDigits, "--keep_open"});
  EXPECT_EQ(part.code, 0) << part.error;
  EXPECT_THAT(part.output, HasSubstr(job + " has 28 batches of 64 rows"));
  EXPECT_THAT(Ebb({"ps"}).output, Not(HasSubstr("(batch 0"))) << "nor that it waits for those";
  EXPECT_THAT(waits_for("28"), HasSubstr("feed not connected since "));
  // The same file again: the feed has all of one epoch already.
  EXPECT_EQ(Ebb({"feed", job, kDigits}).code, 0);
  EXPECT_EQ(Ebb({"watch", job}).code, 0);
  const Json shown = EbbJson({"show", job});
  EXPECT_EQ(shown["step"], 28);
  EXPECT_THAT(shown["message"].get<std::string>(), HasSubstr("the end of its feed"));
}

TEST_F(FeedTest, MistakesAreToldToWhoMakesThem) {
  const std::string job = SubmitFed();
  const std::string stray = dir_.path() + "/stray.csv";
  {
    std::ofstream file(stray);
    for (int row = 0; row < 64; ++row) {
      for (int i = 0; i < 64; ++i) file << i << ",";
      file << (row == 40 ? 10 : 3) << "\n";
    }
  }
  const Outcome bad = Ebb({"feed", job, stray});
  EXPECT_EQ(bad.code, 2) << bad.output;
  EXPECT_THAT(bad.error, HasSubstr("batch 0: field \"label\", row 40"));
  EXPECT_EQ(Ebb({"feed", job, dir_.path() + "/none.npz"}).code, 4);
  EXPECT_THAT(Ebb({"feed", job, kDigits, "--epochs", "0"}).error, HasSubstr("--epochs 0"));
  const Outcome file = Ebb({"feed", Submit("digits-mlp-adam"), kDigits});
  EXPECT_EQ(file.code, 5);
  EXPECT_THAT(file.error, HasSubstr("takes no batches"));
  EXPECT_EQ(Ebb({"feed", job, kDigits, "--epochs", "9"}).code, 0) << "and may be done right";
}

TEST_F(FeedTest, ASecondFeederIsRefusedUnlessItTakesTheFeed) {
  const std::string job = SubmitFed({"stop={steps: 100000000}"});
  const std::string few = Rows("few.csv", 64, 3);
  Process first({kEbb, "feed", job, kDigits, "--epochs", "1000000"}, {"EBB_SERVER=" + socket()});
  WatchUntil(job, [](const auto& update) { return update.job().step() >= 1; });
  Ebb({"pause", job});  // the feeder is held back
  const Outcome second = Ebb({"feed", job, few});
  EXPECT_EQ(second.code, 5) << second.output;
  EXPECT_THAT(second.error,
              HasSubstr(absl::StrCat(job, ": another client feeds the job: ebb feed digits.csv.gz ",
                                     "(pid ", first.pid(), " on ")));
  EXPECT_THAT(second.error, HasSubstr("--take_over"));
  EXPECT_EQ(EbbJson({"show", job})["state"], "paused") << "it has not ended the job";
  // It takes the feed, which it then cannot go on with.
  const Outcome taker = Ebb({"feed", job, few, "--take_over"});
  EXPECT_EQ(taker.code, 5) << taker.output;
  EXPECT_THAT(taker.error, HasSubstr("the files end after 1 batches"));
  EXPECT_EQ(first.Wait(), 5);
  EXPECT_THAT(first.error(), HasSubstr("another client has taken the feed: ebb feed few.csv (pid"));
  EXPECT_EQ(Ebb({"resume", job}).code, 0);
  EXPECT_EQ(EbbJson({"show", job})["state"], "running");
  EXPECT_EQ(Ebb({"cancel", job}).code, 0);
}

TEST_F(FeedTest, OtherFilesAreRefusedUnlessTheyAreMeant) {
  const std::string job = SubmitFed(), same = SubmitFed();
  for (const std::string& id : {job, same}) {
    ASSERT_EQ(Ebb({"feed", id, kDigits, "--shuffle", "2", "--keep_open"}).code, 0);
  }
  const std::string other = Rows("other.csv", 40 * 64, 3), few = Rows("few.csv", 64, 3);
  const std::vector<std::vector<std::string>> wrong = {
      {"feed", job, other}, {"feed", job, kDigits}, {"feed", job, kDigits, "--shuffle", "3"}};
  for (const auto& command : wrong) {
    const Outcome refused = Ebb(command);
    EXPECT_EQ(refused.code, 5) << refused.output;
    EXPECT_THAT(refused.error, HasSubstr("batch 27 is not the one that ebb feed digits.csv.gz"));
    EXPECT_THAT(refused.error, HasSubstr("--other_source"));
  }
  const std::vector<std::vector<std::string>> shorter = {{"feed", job, few},
                                                         {"feed", job, few, "--other_source"}};
  for (const auto& command : shorter) {
    const Outcome refused = Ebb(command);
    EXPECT_EQ(refused.code, 5) << refused.output;
    EXPECT_THAT(refused.error, HasSubstr("the files end after 1 batches"));
  }
  EXPECT_EQ(EbbJson({"show", job})["state"], "running") << "none has ended it";
  const Outcome meant = Ebb({"feed", job, other, "--other_source"});
  EXPECT_EQ(meant.code, 0) << meant.error;
  EXPECT_THAT(meant.error, HasSubstr(job + " has 28 batches already"));
  EXPECT_EQ(Ebb({"watch", job}).code, 0);
  EXPECT_EQ(EbbJson({"show", job})["step"], 40);
  // More files are not others.
  const Outcome more = Ebb({"feed", same, kDigits, other, "--shuffle", "2"});
  EXPECT_EQ(more.code, 0) << more.error;
  EXPECT_THAT(more.output, HasSubstr(same + " succeeded at step 60"));
}

TEST_F(FeedTest, AFeederSaysOnceThatItWaitsForItsDaemon) {
  const auto says = [&](const std::string& text, const std::string& what) {
    const size_t at = text.find(what);
    return at != std::string::npos && text.find(what, at + 1) == std::string::npos;
  };
  const std::string answers = "ebb: no ebbd answers at unix:" + socket();
  const std::string job = SubmitFed({"stop={steps: 100000000}"});
  Process feeder({kEbb, "feed", job, kDigits, "--epochs", "1000000", "--timeout", "1s"},
                 {"EBB_SERVER=" + socket()});
  WatchUntil(job, [](const auto& update) { return update.job().step() >= 1; });
  daemon_->Signal(SIGKILL);
  daemon_->Wait();
  EXPECT_EQ(feeder.Wait(), 3);
  EXPECT_TRUE(says(feeder.error(), answers + " any more; trying again for 1s (--timeout)"))
      << feeder.error();
  EXPECT_THAT(feeder.error(), HasSubstr("cannot reach ebbd at unix:" + socket()));

  const Outcome none = Ebb({"feed", job, kDigits, "--timeout", "700ms"});
  EXPECT_EQ(none.code, 3) << none.error;
  EXPECT_TRUE(says(none.error, answers + "; trying again for 700ms")) << none.error;
  EXPECT_THAT(Ebb({"feed", job, kDigits, "--timeout", "0"}).error, Not(HasSubstr("trying again")));
  for (const char* bad : {"soon", "-1s", ""}) {
    const Outcome outcome = Ebb({"feed", job, kDigits, "--timeout", bad});
    EXPECT_EQ(outcome.code, 2) << bad;
    EXPECT_THAT(outcome.error, HasSubstr("is no duration; write it as 30s, 5m or inf")) << bad;
  }

  Process waits({kEbb, "feed", job, kDigits, "--timeout", "2m"}, {"EBB_SERVER=" + socket()});
  ASSERT_TRUE(waits.AwaitError("trying again for 2m")) << waits.error();
  daemon_ = Start();
  EXPECT_EQ(waits.Wait(), 4) << "the new daemon has no such job";
  EXPECT_THAT(waits.error(), HasSubstr("no job"));
}

TEST_F(FeedTest, AFeederDoesNotFeedAnotherJobThatHasTheSameIdAfterARestart) {
  const std::string mine = SubmitFed({"stop={steps: 1000000}"});
  Process feeder({kEbb, "feed", mine, kDigits, "--epochs", "100000", "--timeout", "60s"},
                 {"EBB_SERVER=" + socket()});
  WatchUntil(mine, [](const auto& update) { return update.job().step() >= 5; });
  feeder.Signal(SIGSTOP);
  daemon_->Signal(SIGKILL);
  daemon_->Wait();
  daemon_ = Start();
  const std::string other = SubmitFed();
  ASSERT_EQ(other, mine);
  feeder.Signal(SIGCONT);
  EXPECT_EQ(feeder.Wait(), 5);
  EXPECT_THAT(feeder.error(), HasSubstr("is another job now"));
  int64_t step = -1;
  WatchUntil(other, [&](const auto& update) {
    step = update.job().step();
    return true;
  });
  EXPECT_EQ(step, 0);
}

TEST_F(FeedTest, AFileThatIsNotThereTakesNoFeed) {
  const std::string job = SubmitFed({"stop={steps: 1000000}"});
  Process feeder({kEbb, "feed", job, kDigits, "--epochs", "100000"}, {"EBB_SERVER=" + socket()});
  WatchUntil(job, [](const auto& update) { return update.job().step() >= 5; });
  EXPECT_EQ(Ebb({"feed", job, dir_.path() + "/nope.npz", "--take_over"}).code, 4);
  int64_t from = -1;
  WatchUntil(job, [&](const auto& update) {
    if (from < 0) from = update.job().step();
    return update.job().step() >= from + 50;
  });
  Ebb({"cancel", job});
  feeder.Wait();
}

TEST_F(FeedTest, AFeedThatStallsFailsItsJobAsItsSpecSays) {
  const std::string job = SubmitFed({"data.train.feed_timeout=400ms"});
  EXPECT_EQ(Ebb({"feed", job, kDigits, "--keep_open"}).code, 0);
  EXPECT_EQ(Ebb({"watch", job}).code, 1);
  const Json shown = EbbJson({"show", job});
  EXPECT_EQ(shown["reason"], "data");
  EXPECT_THAT(shown["message"].get<std::string>(), HasSubstr("waited for batch 28"));
  const Outcome late = Ebb({"feed", job, kDigits});
  EXPECT_EQ(late.code, 5);
  EXPECT_THAT(late.error, HasSubstr(job + " has ended: failed: waited for batch 28"));
}

}  // namespace
}  // namespace ebb::e2e
