// feed: pushes the rows of files to a job that takes its batches from its client.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "client/cli/commands.h"
#include "client/cli/feed_files.h"
#include "client/cli/render.h"
#include "client/feed.h"
#include "client/json.h"
#include "client/local_file.h"
#include "proto/names.h"

namespace ebb::cli {
namespace {

absl::StatusOr<FeedOrder> ReadOrder(const Args& args) {
  FeedOrder order;
  if (args.Has("epochs") && (!absl::SimpleAtoi(args.Get("epochs"), &order.epochs) ||
                             order.epochs < 1 || order.epochs > 1'000'000'000)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--epochs ", args.Get("epochs"), " is no number above 0"));
  }
  if (args.Has("shuffle")) {
    uint64_t seed = 0;
    if (!absl::SimpleAtoi(args.Get("shuffle"), &seed)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--shuffle ", args.Get("shuffle"), " is no seed, a number from 0"));
    }
    order.seed = seed;
  }
  return order;
}

std::string InWords(const v1::FeedResponse& last, const v1::Job& job) {
  if (last.state() != v1::Job::STATE_UNSPECIFIED) {
    return absl::StrCat(last.job(), " ", StateName(job), " at step ", WithCommas(job.step()),
                        " after ", WithCommas(last.next_batch()), " batches of ",
                        WithCommas(last.batch_rows()), " rows");
  }
  return absl::StrCat(last.job(), " has ", WithCommas(last.next_batch()), " batches of ",
                      WithCommas(last.batch_rows()), " rows; it is at step ",
                      WithCommas(job.step()));
}

absl::StatusOr<absl::Duration> ReadTimeout(const Args& args) {
  absl::Duration timeout = absl::Seconds(30);
  if (!args.Has("timeout")) return timeout;
  const std::string text = args.Get("timeout");
  if (absl::ParseDuration(text, &timeout) && timeout >= absl::ZeroDuration()) return timeout;
  return absl::InvalidArgumentError(
      absl::StrCat("--timeout ", text, " is no duration; write it as 30s, 5m or inf"));
}

// "ebb feed day1.npz and 2 more".
std::string NameFor(const std::vector<std::string>& paths) {
  std::string file = Escaped(std::filesystem::path(paths[0]).filename().string());
  if (file.size() > 100) file = absl::StrCat("...", Escaped(file.substr(file.size() - 97)));
  return absl::StrCat("ebb feed ", file,
                      paths.size() > 1 ? absl::StrCat(" and ", paths.size() - 1, " more") : "");
}

// What is said on the way, on stderr.
class Teller {
 public:
  explicit Teller(const Context& context, absl::Duration timeout)
      : address_(context.client.address()), timeout_(timeout) {}

  void Waits() {
    std::fprintf(stderr, "ebb: no ebbd answers at %s%s; trying again for %s (--timeout)\n",
                 address_.c_str(), begun_ ? " any more" : "",
                 absl::FormatDuration(timeout_).c_str());
    waits_ = true;
  }
  void Begun(const v1::FeedResponse& begun) {
    const std::string next = WithCommas(begun.next_batch());
    if (!begun_ && begun.next_batch() > 0) {
      std::fprintf(stderr,
                   "ebb: %s has %s batches already: as many of these files, which are counted "
                   "from its first one, are skipped\n",
                   begun.job().c_str(), next.c_str());
    } else if (waits_) {
      std::fprintf(stderr, "ebb: connected; %s gets batch %s\n", begun.job().c_str(), next.c_str());
    }
    begun_ = true;
    waits_ = false;
  }

 private:
  const std::string address_;
  const absl::Duration timeout_;
  bool begun_ = false, waits_ = false;
};

int Feed(const Context& context) {
  const Args& args = context.args;
  const auto order = ReadOrder(args);
  if (!order.ok()) return Fail(order.status());
  const auto timeout = ReadTimeout(args);
  if (!timeout.ok()) return Fail(timeout.status());
  std::vector<std::string> paths = args.positional();
  const std::string job = paths.front();
  paths.erase(paths.begin());
  for (const std::string& path : paths) {  // before a feed is taken from anybody
    const auto fd = client::OpenRegularFile(path);
    if (!fd.ok()) return Fail(fd.status());
    close(*fd);
  }
  Teller teller(context, *timeout);
  client::FeedOptions options{.name = NameFor(paths), .patience = *timeout};
  FileBatches batches(std::move(paths), *order);
  if (args.Has("take_over")) options.other = client::OtherClient::kIsEnded;
  if (args.Has("other_source")) options.at_begin = client::AtBegin::kTrust;
  if (args.Has("keep_open")) options.at_end = client::AtEnd::kLeave;
  options.waits = [&](const absl::Status&) { teller.Waits(); };
  options.begun = [&](const v1::FeedResponse& begun) {
    teller.Begun(begun);
    return batches.Begin(begun);
  };
  const auto last = client::FeedJob(
      &context.client, job, [&](int64_t number) { return batches.Make(number); }, options);
  if (!last.ok()) return Fail(last.status());
  if (context.json) {
    std::printf("%s\n", client::ToJson(*last, client::JsonStyle::kIndented).c_str());
    return kOk;
  }
  const auto now = context.client.Get(last->job());
  if (!now.ok()) return Fail(now.status());
  std::printf("%s\n", InWords(*last, *now).c_str());
  return kOk;
}

}  // namespace

std::vector<Command> FeedCommands() {
  return {
      {"feed",
       "feed JOB FILE... [flags]",
       "Push the rows of files to a job with data.train: {feed: client, ...}, batch by batch. A "
       "feed that broke off goes on when the command is given again: files are counted from the "
       "job's first batch, and what it has is skipped. The last batch that it has must be that of "
       "the files.",
       "  ebb feed clicks day1.npz day2.npz\n"
       "  ebb feed j-17 digits.csv.gz --epochs 20 --shuffle 1\n"
       "  ebb feed clicks day1.npz --keep_open\n"
       "  ebb feed clicks day1.npz day2.npz       # later: day1 is there already\n",
       2,
       std::numeric_limits<size_t>::max(),
       {{"epochs", "N", "push all files so many times (default 1)"},
        {"shuffle", "SEED", "shuffle the rows of a file as a job that reads it does by seed.data"},
        {"keep_open", "", "more will follow: do not end the job when the files end"},
        {"take_over", "", "take the feed from another client that is connected"},
        {"other_source", "", "go on although the job was fed with something else so far"},
        {"timeout", "DURATION", "how long to try an ebbd that cannot be reached (default 30s)"}},
       Feed},
  };
}

}  // namespace ebb::cli
