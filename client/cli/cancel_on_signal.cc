#include "client/cli/cancel_on_signal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "base/check.h"
#include "client/cli/commands.h"

namespace ebb::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
constexpr char kSignalled = 's', kStopped = 'e';

int pipe_fds[2] = {-1, -1};  // what a handler can reach

void OnSignal(int) {
  const int error = errno;
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
  [[maybe_unused]] const ssize_t written = write(pipe_fds[1], &kSignalled, 1);
  errno = error;
}

}  // namespace

CancelOnSignal::CancelOnSignal(client::Client* client) : client_(client) {
  EBB_CHECK(pipe_fds[0] < 0);
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) pipe_fds[0] = -1;  // signals end the process as ever
}

void CancelOnSignal::Of(const std::string& job) {
  if (pipe_fds[0] < 0) return;
  job_ = job;
  thread_ = std::thread([this] { Wait(); });
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (const int signal : kSignals) {
    struct sigaction before;
    const bool ignored =  // as nohup has it
        sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
    if (!ignored) sigaction(signal, &action, nullptr);
  }
}

void CancelOnSignal::Wait() {
  char what = 0;
  while (read(pipe_fds[0], &what, 1) < 0 && errno == EINTR) {
  }
  if (what != kSignalled) return;
  cancelled_ = true;
  const auto job = client_->Cancel(job_);
  if (!job.ok()) {
    std::fprintf(stderr, "ebb: interrupted, but %s could not be cancelled and may go on:\n",
                 job_.c_str());
    Fail(job.status());
  } else if (job->state() == v1::Job::STATE_SUCCEEDED) {
    std::fprintf(stderr, "ebb: interrupted: %s has succeeded; `ebb get %s` fetches its outputs\n",
                 job_.c_str(), job_.c_str());
  } else {
    std::fprintf(stderr, "ebb: interrupted: %s is cancelled\n", job_.c_str());
  }
}

bool CancelOnSignal::Stop() {
  if (thread_.joinable()) {
    for (const int signal : kSignals) {
      struct sigaction now;
      if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == OnSignal) {
        std::signal(signal, SIG_DFL);
      }
    }
    [[maybe_unused]] const ssize_t written = write(pipe_fds[1], &kStopped, 1);
    thread_.join();
  }
  for (int& fd : pipe_fds) {
    if (fd >= 0) close(fd);
    fd = -1;
  }
  return cancelled_;
}

}  // namespace ebb::cli
