// How OpenMP's threads wait in ebbd: briefly, unless the environment says otherwise. The runtime
// itself tells: with OMP_DISPLAY_ENV it prints what it has read whenever it is loaded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/daemon/temp_dir.h"
#include "tests/e2e/process.h"

namespace ebb::e2e {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kEbbd = absl::StrCat(EBB_BINARY_DIR, "/bin/ebbd");

// The command of an ebbd that finds `variables` and none other that OpenMP waits by. env(1) becomes
// ebbd: its process is the one that was started.
std::vector<std::string> Command(const std::vector<std::string>& variables,
                                 const std::vector<std::string>& args) {
  std::vector<std::string> argv = {
      "/usr/bin/env", "-u", "OMP_WAIT_POLICY", "-u", "GOMP_SPINCOUNT", "OMP_DISPLAY_ENV=verbose"};
  argv.insert(argv.end(), variables.begin(), variables.end());
  argv.push_back(kEbbd);
  argv.insert(argv.end(), args.begin(), args.end());
  return argv;
}

int TimesLoaded(const std::string& error) {
  const std::vector<std::string> parts = absl::StrSplit(error, "OPENMP DISPLAY ENVIRONMENT BEGIN");
  return static_cast<int>(parts.size()) - 1;
}

// An ebbd from its start until it is told to stop.
class OpenMpTest : public testing::Test {
 protected:
  void Start(const std::vector<std::string>& variables) {
    args_ = {"--socket",    dir_.path() + "/run/ebbd.sock", "--memory",
             "16MiB",       "--threads_per_stream",         "2",
             "--state_dir", dir_.path() + "/state"};
    daemon_ = std::make_unique<Process>(Command(variables, args_));
    ASSERT_TRUE(daemon_->AwaitError("ready on")) << daemon_->error();
  }
  void TearDown() override {
    daemon_->Signal(SIGTERM);
    EXPECT_EQ(daemon_->Wait(), 0) << daemon_->error();
  }
  std::string Proc(const std::string& file) const {
    return TempDir::Read(absl::StrCat("/proc/", daemon_->pid(), "/", file));
  }
  std::vector<std::string> Environment() const { return absl::StrSplit(Proc("environ"), '\0'); }

  TempDir dir_;
  std::vector<std::string> args_;
  std::unique_ptr<Process> daemon_;
};

TEST_F(OpenMpTest, ItsThreadsSpinBrieflyWhenNothingIsSaid) {
  Start({});
  EXPECT_THAT(Environment(), Contains("GOMP_SPINCOUNT=30000"));
  EXPECT_THAT(daemon_->error(), HasSubstr("GOMP_SPINCOUNT = '30000'"));
  EXPECT_EQ(TimesLoaded(daemon_->error()), 2) << "started anew once";
}

TEST_F(OpenMpTest, StartingAnewKeepsNameAndArguments) {
  Start({});
  EXPECT_EQ(Proc("comm"), "ebbd\n");
  std::vector<std::string> line = args_;
  line.insert(line.begin(), kEbbd);
  EXPECT_EQ(Proc("cmdline"),
            absl::StrCat(absl::StrJoin(line, std::string(1, '\0')), absl::string_view("\0", 1)));
}

TEST_F(OpenMpTest, AWaitPolicyIsLeftAlone) {
  Start({"OMP_WAIT_POLICY=active"});
  EXPECT_THAT(Environment(), Contains("OMP_WAIT_POLICY=active"));
  EXPECT_THAT(Environment(), Not(Contains(StartsWith("GOMP_SPINCOUNT"))));
  EXPECT_EQ(TimesLoaded(daemon_->error()), 1);
  EXPECT_EQ(Proc("comm"), "ebbd\n");
}

TEST_F(OpenMpTest, ASpinCountIsLeftAlone) {
  Start({"GOMP_SPINCOUNT=1234"});
  EXPECT_THAT(Environment(), Contains("GOMP_SPINCOUNT=1234"));
  EXPECT_EQ(TimesLoaded(daemon_->error()), 1);
}

TEST(OpenMp, TheExitCodeIsThatOfTheProgramStartedAnew) {
  const Outcome wrong = RunProgram(Command({}, {"--memroy", "1"}));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.error, HasSubstr("did you mean memory?"));
  const Outcome version = RunProgram(Command({}, {"--version"}));
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.output, StartsWith("ebbd "));
}

}  // namespace
}  // namespace ebb::e2e
