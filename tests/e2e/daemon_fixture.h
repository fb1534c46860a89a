// A real ebbd on a socket of its own, and the real ebb against it.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "tests/daemon/temp_dir.h"
#include "tests/e2e/process.h"

namespace ebb::e2e {

using Json = nlohmann::json;

inline const std::string kEbbd = absl::StrCat(EBB_BINARY_DIR, "/bin/ebbd");
inline const std::string kEbb = absl::StrCat(EBB_BINARY_DIR, "/bin/ebb");
inline const std::string kExamples = absl::StrCat(EBB_SOURCE_DIR, "/examples");

class DaemonFixture : public testing::Test {
 protected:
  // `flags`: what this ebbd is started with beside its own paths.
  explicit DaemonFixture(std::vector<std::string> flags) : flags_(std::move(flags)) {}
  void SetUp() override { daemon_ = Start(); }
  void TearDown() override {
    if (daemon_ == nullptr) return;
    daemon_->Signal(SIGTERM);
    EXPECT_EQ(daemon_->Wait(), 0) << daemon_->error();
    EXPECT_FALSE(std::filesystem::exists(socket()));
  }

  std::string socket() const { return dir_.path() + "/run/ebbd.sock"; }
  std::vector<std::string> DaemonArgs(std::vector<std::string> more = {}) const {
    std::vector<std::string> argv = {
        kEbbd,         "--socket",  socket(), "--state_dir", dir_.path() + "/state",
        "--data_root", root_.path()};
    argv.insert(argv.end(), flags_.begin(), flags_.end());
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  }
  std::unique_ptr<Process> Start(std::vector<std::string> more = {}) const {
    auto process = std::make_unique<Process>(DaemonArgs(std::move(more)));
    EXPECT_TRUE(process->AwaitError("ready on")) << process->error();
    return process;
  }
  Outcome Ebb(std::vector<std::string> args) const {
    args.insert(args.begin(), kEbb);
    return RunProgram(std::move(args), {"EBB_SERVER=" + socket()});
  }
  Json EbbJson(std::vector<std::string> args) const {
    args.push_back("--json");
    const Outcome outcome = Ebb(args);
    EXPECT_EQ(outcome.code, 0) << args[0] << ": " << outcome.error;
    const Json json = Json::parse(outcome.output, nullptr, false);
    EXPECT_FALSE(json.is_discarded()) << outcome.output;
    return json;
  }
  // Submits an example; its id.
  std::string Submit(const std::string& example, std::vector<std::string> sets = {}) const {
    std::vector<std::string> args = {"submit", kExamples + "/" + example + ".yaml"};
    for (const std::string& set : sets) args.insert(args.end(), {"--set", set});
    return EbbJson(args).value("id", "");
  }
  // Watches until the first message that `wanted` accepts, or the end.
  void WatchUntil(const std::string& job,
                  const std::function<bool(const v1::WatchResponse&)>& wanted) const {
    const auto client = client::Client::Connect(socket());
    const absl::Status status =
        (*client)->Watch(job, 0, [&](const v1::WatchResponse& update) { return !wanted(update); });
    EXPECT_TRUE(status.ok()) << status;
  }
  size_t Incoming() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path() + "/state/incoming")) {
      count += entry.exists() ? 1 : 0;
    }
    return count;
  }

  const std::vector<std::string> flags_;
  TempDir dir_, root_;
  std::unique_ptr<Process> daemon_;
};

}  // namespace ebb::e2e
