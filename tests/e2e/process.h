// Child processes for end-to-end tests: started, read, waited for and, whatever happens, ended.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace ebb::e2e {

class Process {
 public:
  // `environment`: "NAME=value", added to the test's own.
  Process(std::vector<std::string> argv, std::vector<std::string> environment = {});
  ~Process();  // SIGKILL if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal);
  // The exit code, or 128 + the signal that ended it. Reads all output first.
  int Wait();
  // Blocks until `text` has come on stderr; false when stderr ends without it.
  bool AwaitError(const std::string& text);
  std::string output() const;
  std::string error() const;

 private:
  struct Stream {
    int fd = -1;
    std::string text;
    bool ended = false;
    std::thread reader;
  };
  void Read(Stream* stream);

  pid_t pid_ = -1;
  int code_ = -1;
  mutable Mutex mu_;
  CondVar grown_;
  Stream output_, error_;  // their text and `ended` under mu_
};

struct Outcome {
  int code = -1;
  std::string output;
  std::string error;
};
Outcome RunProgram(std::vector<std::string> argv, std::vector<std::string> environment = {});

}  // namespace ebb::e2e
