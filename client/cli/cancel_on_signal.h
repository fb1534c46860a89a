// A command that waits for a job of its own cancels it when it is interrupted. One at a time in a
// process; used from one thread.
#pragma once

#include <string>
#include <thread>

#include "client/client.h"

namespace ebb::cli {

// From its making to Stop() the first SIGINT, SIGTERM or SIGHUP cancels the job, and says so; the
// next ends the process at once, as does one that comes before there is a job.
class CancelOnSignal {
 public:
  explicit CancelOnSignal(client::Client* client);
  ~CancelOnSignal() { Stop(); }
  CancelOnSignal(const CancelOnSignal&) = delete;
  CancelOnSignal& operator=(const CancelOnSignal&) = delete;

  void Of(const std::string& job);  // once, when it has been submitted
  bool Stop();                      // true: the job was cancelled so

 private:
  void Wait();

  client::Client* const client_;
  std::string job_;
  bool cancelled_ = false;  // the thread's until it has ended
  std::thread thread_;      // waits for a signal; none before Of()
};

}  // namespace ebb::cli
