#include "daemon/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/socket.h"
#include "daemon/stop_guard.h"
#include "tests/daemon/bound_socket.h"
#include "tests/daemon/temp_dir.h"

namespace ebb::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Config Parse(std::vector<std::string> args) {
  const auto parsed = ParseCommandLine(args);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? parsed->config : Config();
}
std::string ErrorOf(std::vector<std::string> args) {
  const auto parsed = ParseCommandLine(args);
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(parsed.status().message());
}

TEST(Config, DefaultsAreSafe) {
  const Config config = Parse({});
  EXPECT_EQ(PoolSize(config, {.memory = GiB(64)}), GiB(4));
  EXPECT_EQ(config.device, "cpu");
  EXPECT_EQ(config.listen, "");
  EXPECT_TRUE(config.data_roots.empty());
  EXPECT_FALSE(config.socket.empty());
  EXPECT_FALSE(config.state_dir.empty());
}

TEST(Config, ADevicesOwnMemoryIsTakenWholeUnlessLessIsAskedFor) {
  const DeviceSpec gpu = {.memory = GiB(15), .host_memory = false};
  EXPECT_EQ(PoolSize(Parse({}), gpu), GiB(15));
  EXPECT_EQ(PoolSize(Parse({"--memory", "2GiB"}), gpu), GiB(2));
}

TEST(Config, JobsCannotBeGivenMoreOfTheHostThanItHas) {
  const DeviceSpec cpu = {.memory = GiB(8), .host_memory = true};
  const DeviceSpec sim = {.memory = GiB(15), .computes = false, .host_memory = false};
  const auto check = [](const DeviceSpec& device, const std::string& host) {
    return CheckHostMemory(Parse({"--memory", "2GiB", "--host_memory", host}), device, GiB(8));
  };
  EXPECT_EQ(*check(cpu, "6GiB"), "");
  EXPECT_EQ(
      *check(cpu, "7GiB"),
      "--host_memory: 7.0 GiB and the pool of 2.0 GiB are together more than the 8.0 GiB that "
      "the machine has");
  const absl::Status more = check(cpu, "9GiB").status();
  EXPECT_EQ(more.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(more.message(), "--host_memory: 9.0 GiB is more than the 8.0 GiB that the machine has");
  EXPECT_EQ(*check(sim, "7GiB"), "");  // its pool takes nothing of the host
  EXPECT_THAT(*check(sim, "9GiB"), HasSubstr("9.0 GiB is more than the 8.0 GiB"));
  EXPECT_EQ(*CheckHostMemory(Parse({"--memory", "7GiB"}), cpu, GiB(8)), "");
}

TEST(Config, FlagsWinOverTheFile) {
  TempDir dir;
  const std::string file =
      dir.Write("ebbd.yaml", "memory: 2GiB\npolicy: fifo\ndata_root: [" + dir.path() +
                                 ", /usr]\nmax_lanes: 3\ninsecure_any_address: false\n");
  const Config config = Parse({"--memory=1GiB", "--config", file, "--data_root", "/etc",
                               "--threads_per_stream", "2", "--listen", "127.0.0.1:0"});
  EXPECT_EQ(config.memory, GiB(1));
  EXPECT_EQ(config.policy, scheduler::Policy::kFifo);
  EXPECT_EQ(config.max_lanes, 3);
  EXPECT_EQ(config.threads_per_stream, 2);
  EXPECT_THAT(config.data_roots, ElementsAre(dir.path(), "/usr", "/etc"));
}

TEST(Config, MistakesAreNamed) {
  TempDir dir;
  EXPECT_THAT(ErrorOf({"--memroy", "1GiB"}), HasSubstr("did you mean memory?"));
  EXPECT_THAT(ErrorOf({"--memory"}), HasSubstr("needs a value"));
  EXPECT_THAT(ErrorOf({"--memory", "lots"}), HasSubstr("--memory: 'lots'"));
  EXPECT_THAT(ErrorOf({"--memory", "0"}), HasSubstr("at least"));
  EXPECT_THAT(ErrorOf({"--policy", "random"}), HasSubstr("fair, fifo"));
  EXPECT_THAT(ErrorOf({"--co_run", "maybe"}), HasSubstr("'maybe' is not one of auto, always"));
  EXPECT_EQ(ParseCommandLine({"--co_run", "never"})->config.co_run, runtime::CoRunMode::kNever);
  EXPECT_THAT(ErrorOf({"--max_in_flight", "0"}), HasSubstr("--max_in_flight"));
  EXPECT_THAT(ErrorOf({"--data_root", "/nonexistent"}), HasSubstr("does not exist"));
  EXPECT_THAT(ErrorOf({"--data_root", dir.Write("file", "x")}), HasSubstr("is not a directory"));
  EXPECT_THAT(ErrorOf({"--state_dir="}), HasSubstr("--state_dir: it is empty"));
  EXPECT_THAT(ErrorOf({"serve"}), HasSubstr("'serve'"));
  EXPECT_THAT(ErrorOf({"--socket="}), HasSubstr("neither"));
  EXPECT_THAT(ErrorOf({"--config", dir.Write("a.yaml", "device: cpu\nmemry: 1\n")}),
              HasSubstr("a.yaml:2: memry"));
  EXPECT_THAT(ErrorOf({"--config", dir.Write("b.yaml", "a: [\n")}), HasSubstr("b.yaml:"));
  EXPECT_THAT(ErrorOf({"--config", dir.Write("c.yaml", "- a\n")}), HasSubstr("must be a map"));
  EXPECT_THAT(ErrorOf({"--config", dir.Write("d.yaml", "device: [a, b]\n")}),
              HasSubstr("one value"));
  EXPECT_THAT(ErrorOf({"--config", dir.Write("e.yaml", "memory: 1GiB\nmemory: 2GiB\n")}),
              HasSubstr("e.yaml:2: memory: it is given twice"));
  EXPECT_THAT(ErrorOf({"--config", dir.Write("f.yaml", "memory: {a: 1}\n")}),
              HasSubstr("f.yaml:1: memory: it needs a value"));
  EXPECT_THAT(ErrorOf({"--config", dir.Write("g.yaml", "memory:\n")}),
              HasSubstr("g.yaml:1: memory: it needs a value"));
  EXPECT_THAT(ErrorOf({"--config", dir.Write("h.yaml", "device: cpu\n---\ndevice: ref\n")}),
              HasSubstr("more than one document"));
  EXPECT_THAT(ErrorOf({"--config", dir.Write("i.yaml", "config: x\n")}),
              testing::Not(HasSubstr("did you mean")));
}

TEST(Config, OnlyLoopbackAddressesUnlessToldOtherwise) {
  for (const char* good : {"127.0.0.1:0", "127.1.2.3:65535", "localhost:7777", "[::1]:80"}) {
    EXPECT_TRUE(CheckListenAddress(good, false).ok()) << good;
  }
  for (const char* bad : {"0.0.0.0:1", "192.168.0.1:1", "[::]:1", "example.org:1",
                          "127.0.0.1.evil.org:1", "127.0.0.evil:1", ":1", "*:1"}) {
    EXPECT_FALSE(CheckListenAddress(bad, false).ok()) << bad;
    EXPECT_TRUE(CheckListenAddress(bad, true).ok()) << bad;
  }
  for (const char* bad :
       {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "a:b"}) {
    EXPECT_FALSE(CheckListenAddress(bad, true).ok()) << bad;
  }
}

TEST(Config, HelpNamesEveryFlag) {
  const auto parsed = ParseCommandLine({"--help"});
  ASSERT_TRUE(parsed.ok() && parsed->print.has_value());
  for (const char* flag :
       {"--socket", "--listen", "--insecure_any_address", "--memory", "--device", "--data_root",
        "--state_dir", "--threads_per_stream", "--max_lanes", "--policy", "--co_run", "--quantum",
        "--max_in_flight", "--upload_limit", "--store_limit", "--host_memory", "--config"}) {
    EXPECT_THAT(*parsed->print, HasSubstr(flag));
  }
}

TEST(Socket, TheSecondClaimIsToldWhoHoldsIt) {
  TempDir dir;
  const std::string path = dir.path() + "/run/ebb/ebbd.sock";
  auto first = SocketPath::Claim(path);
  ASSERT_TRUE(first.ok()) << first.status();
  struct stat info;
  ASSERT_EQ(stat((dir.path() + "/run/ebb").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  const auto second = SocketPath::Claim(path);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(std::to_string(getpid())));
  first->reset();
  EXPECT_TRUE(SocketPath::Claim(path).ok());
}

TEST(Socket, OneThatIsServedIsNotTakenEvenIfItsLockFileIsGone) {
  TempDir dir;
  const std::string path = dir.path() + "/s.sock";
  const int fd = BoundSocket(path);
  ASSERT_EQ(listen(fd, 1), 0);
  EXPECT_EQ(SocketPath::Claim(path).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(std::filesystem::exists(path));
  close(fd);
  EXPECT_TRUE(SocketPath::Claim(path).ok());
}

TEST(StopGuard, LeavesWhenStoppingTakesTooLongAndOnlyThen) {
  Mutex mu;
  CondVar changed;
  bool left = false;
  const auto leave = [&] {
    MutexLock lock(&mu);
    left = true;
    changed.SignalAll();
  };
  { const StopGuard guard(absl::Hours(1), leave); }
  EXPECT_FALSE(left) << "its thread has been joined";
  const StopGuard guard(absl::Milliseconds(1), leave);
  MutexLock lock(&mu);
  while (!left) changed.Wait(&mu);
}

TEST(Socket, AStaleSocketIsReplacedAndAFileIsNot) {
  TempDir dir;
  const std::string path = dir.path() + "/s.sock";
  const int fd = BoundSocket(path);
  close(fd);
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_TRUE(SocketPath::Claim(path).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  dir.Write("file", "x");
  EXPECT_EQ(SocketPath::Claim(dir.path() + "/file").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(SocketPath::Claim("relative.sock").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SocketPath::Claim(dir.path() + "/" + std::string(200, 'x')).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ebb::daemon
