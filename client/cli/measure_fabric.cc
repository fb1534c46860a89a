#include "client/cli/measure_fabric.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"
#include "perfmodel/curve_import.h"

extern char** environ;

namespace ebb::cli {
namespace {

constexpr const char* kPrograms[] = {"all_reduce_perf", "all_gather_perf", "reduce_scatter_perf",
                                     "alltoall_perf",   "broadcast_perf",  "sendrecv_perf"};
constexpr size_t kMostOutput = size_t{64} << 20;

// "" where there is none.
std::string PathOf(const std::string& directory, const std::string& program) {
  std::vector<std::string> places = {directory};
  if (directory.empty()) {
    const char* path = std::getenv("PATH");
    places = absl::StrSplit(path == nullptr ? "" : path, ':', absl::SkipEmpty());
  }
  for (const std::string& place : places) {
    std::string full = absl::StrCat(place, "/", program);
    if (access(full.c_str(), X_OK) == 0) return full;
  }
  return "";
}

std::string LastLine(absl::string_view text) {
  std::string last;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!line.empty()) last = std::string(line.substr(0, 200));
  }
  return Escaped(last);
}

// What the program prints; its stderr goes where ours does.
absl::StatusOr<std::string> OutputOf(const std::vector<std::string>& words) {
  const std::string line = absl::StrJoin(words, " ");
  const auto fault = [&](absl::string_view what) {
    return absl::InternalError(absl::StrCat(line, ": ", what));
  };
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fault(std::strerror(errno));
  absl::Cleanup close_read = [&] { close(ends[0]); };
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) return fault(std::strerror(error));
  std::string text;
  char buffer[1 << 14];
  while (true) {
    const ssize_t count = read(ends[0], buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    if (text.size() < kMostOutput) text.append(buffer, static_cast<size_t>(count));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  return fault(absl::StrCat(WIFEXITED(status) ? absl::StrCat("exit code ", WEXITSTATUS(status))
                                              : absl::StrCat("ended by signal ", WTERMSIG(status)),
                            "; its last line: ", LastLine(text)));
}

}  // namespace

int64_t GpusHere() {
  int64_t count = 0;
  while (access(absl::StrCat("/dev/nvidia", count).c_str(), F_OK) == 0) ++count;
  return count;
}

std::vector<int64_t> Sweeps(int64_t gpus) {
  std::vector<int64_t> sweeps;
  for (int64_t count = 2; count < gpus; count *= 2) sweeps.push_back(count);
  if (gpus >= 2) sweeps.push_back(gpus);
  return sweeps;
}

absl::StatusOr<std::vector<perfmodel::Curve>> MeasureCurves(
    const NcclTests& tests, const std::function<void(const std::string&)>& say) {
  std::vector<perfmodel::Curve> curves;
  for (const char* program : kPrograms) {
    const std::string path = PathOf(tests.directory, program);
    if (path.empty()) {
      say(absl::StrCat(program, " is not there: its collective is left out"));
      continue;
    }
    for (const int64_t gpus : tests.gpus) {
      const std::vector<std::string> words = {path, "-b", tests.least,       "-e", tests.most, "-f",
                                              "2",  "-g", absl::StrCat(gpus)};
      say(absl::StrJoin(words, " "));
      EBB_ASSIGN_OR_RETURN(const std::string text, OutputOf(words));
      auto read =
          perfmodel::ReadNcclTests(text, program, {.kind = {}, .ranks = gpus, .nodes = int64_t{1}});
      if (!read.ok()) return absl::InternalError(read.status().message());
      std::move(read->begin(), read->end(), std::back_inserter(curves));
    }
  }
  if (!curves.empty()) return curves;
  return absl::NotFoundError(absl::StrCat(
      "no program of nccl-tests (all_reduce_perf, ...) is in ",
      tests.directory.empty() ? "$PATH; build them (github.com/NVIDIA/nccl-tests) and give their "
                                "folder as --nccl-tests DIR"
                              : tests.directory));
}

}  // namespace ebb::cli
