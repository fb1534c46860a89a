// Who feeds a job, and what is said of it.
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/text.h"
#include "runtime/feed.h"

namespace ebb::runtime {
namespace {

// With its day, unless that is today.
std::string Clock(absl::Time time) {
  const absl::TimeZone zone = absl::LocalTimeZone();
  const bool today = absl::ToCivilDay(time, zone) == absl::ToCivilDay(absl::Now(), zone);
  return absl::FormatTime(today ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", time, zone);
}

}  // namespace

std::string Feed::Who(const std::string& client) {
  return client.empty() ? "a client that gave no name" : Escaped(client);
}

absl::StatusOr<Feed::Stream> Feed::Open(const Client& client, absl::Time deadline) {
  MutexLock lock(&mu_);
  const auto taken = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const bool same = !client.name.empty() && client.name == client_;
    return connected_ && !finished_ && !client.take_over && !same;
  };
  while (taken()) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "another client feeds the job: ", Who(client_), ", connected since ", Clock(since_), ", ",
          next_, " batches are in; wait until it is done, stop it, or take the feed from it ",
          "(ebb feed --take_over, take_over in the header)"));
    }
    changed_.WaitWithTimeout(&mu_, left);
  }
  connected_ = true;
  since_ = absl::Now();
  client_ = client.name;
  Changed();
  return ++newest_;
}

void Feed::Close(Stream stream) {
  MutexLock lock(&mu_);
  if (stream != newest_) return;
  connected_ = false;
  since_ = absl::Now();
  Changed();
}

absl::Status Feed::CheckOpen(Stream stream) const {
  if (stream != newest_) {
    return absl::AbortedError(absl::StrCat("another client has taken the feed: ", Who(client_)));
  }
  if (finished_) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job has ended: ", Name(*finished_), why_.empty() ? "" : ": ", why_));
  }
  return absl::OkStatus();
}

std::string Feed::TakenBy(Stream stream) const {
  MutexLock lock(&mu_);
  return stream == newest_ ? "" : Who(client_);
}

std::string Feed::Link() const {
  if (newest_ == 0) return "feed not connected yet";
  return absl::StrCat("feed ", connected_ ? "" : "not ", "connected since ", Clock(since_));
}

std::string Feed::LinkInWords() const {
  MutexLock lock(&mu_);
  return Link();
}

std::string Feed::WaitInWords(int64_t number) const {
  MutexLock lock(&mu_);
  if (number < next_) return "";
  return absl::StrCat("waits for data from its client (batch ", number, "; ", Link(), ")");
}

bool Feed::connected() const {
  MutexLock lock(&mu_);
  return connected_;
}

}  // namespace ebb::runtime
