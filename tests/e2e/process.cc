#include "tests/e2e/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

extern char** environ;

namespace ebb::e2e {

Process::Process(std::vector<std::string> argv, std::vector<std::string> environment) {
  int out[2], err[2];
  EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(err, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawn_file_actions_adddup2(&actions, err[1], 2);
  std::vector<char*> arguments, variables;
  for (std::string& argument : argv) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  for (std::string& variable : environment) variables.push_back(variable.data());
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  variables.push_back(nullptr);
  EXPECT_EQ(posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), variables.data()),
            0)
      << argv[0];
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  close(err[1]);
  output_.fd = out[0];
  error_.fd = err[0];
  output_.reader = std::thread([this] { Read(&output_); });
  error_.reader = std::thread([this] { Read(&error_); });
}

Process::~Process() {
  if (code_ < 0) {
    Signal(SIGKILL);
    Wait();
  }
  close(output_.fd);
  close(error_.fd);
}

void Process::Read(Stream* stream) {
  char buffer[4096];
  while (true) {
    const ssize_t count = read(stream->fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    MutexLock lock(&mu_);
    if (count <= 0) {
      stream->ended = true;
    } else {
      stream->text.append(buffer, static_cast<size_t>(count));
    }
    grown_.SignalAll();
    if (stream->ended) return;
  }
}

void Process::Signal(int signal) {
  if (pid_ > 0 && code_ < 0) kill(pid_, signal);
}

int Process::Wait() {
  if (code_ >= 0 || pid_ <= 0) return code_;
  output_.reader.join();
  error_.reader.join();
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return code_;
}

bool Process::AwaitError(const std::string& text) {
  MutexLock lock(&mu_);
  while (error_.text.find(text) == std::string::npos) {
    if (error_.ended) return false;
    grown_.Wait(&mu_);
  }
  return true;
}

std::string Process::output() const {
  MutexLock lock(&mu_);
  return output_.text;
}

std::string Process::error() const {
  MutexLock lock(&mu_);
  return error_.text;
}

Outcome RunProgram(std::vector<std::string> argv, std::vector<std::string> environment) {
  Process process(std::move(argv), std::move(environment));
  const int code = process.Wait();
  return {code, process.output(), process.error()};
}

}  // namespace ebb::e2e
