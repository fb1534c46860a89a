// feed: pushes the rows of files to a job that takes its batches from its client.
#include <cstdio>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/cli/commands.h"
#include "client/cli/feed_files.h"
#include "client/cli/render.h"
#include "client/feed.h"
#include "client/json.h"
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

int Feed(const Context& context) {
  const auto order = ReadOrder(context.args);
  if (!order.ok()) return Fail(order.status());
  std::vector<std::string> paths = context.args.positional();
  const std::string job = paths.front();
  paths.erase(paths.begin());
  FileBatches batches(std::move(paths), *order);
  bool first = true;
  const auto last = client::FeedJob(
      &context.client, job, [&](int64_t number) { return batches.Make(number); },
      {.at_end = context.args.Has("keep_open") ? client::AtEnd::kLeave : client::AtEnd::kEnd,
       .begun = [&](const v1::FeedResponse& begun) {
         if (first && begun.next_batch() > 0) {
           std::fprintf(stderr,
                        "ebb: %s has %s batches already: as many of these files, which are counted "
                        "from its first one, are skipped\n",
                        begun.job().c_str(), WithCommas(begun.next_batch()).c_str());
         }
         first = false;
         return batches.Begin(begun);
       }});
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
       "feed JOB FILE... [--epochs N] [--shuffle SEED] [--keep_open]",
       "Push the rows of files to a job with data.train: {feed: client, ...}, batch by batch. A "
       "feed that broke off goes on when the command is given again: files are counted from the "
       "job's "
       "first batch, and what it has is skipped.",
       "  ebb feed clicks day1.npz day2.npz\n"
       "  ebb feed j-17 digits.csv.gz --epochs 20 --shuffle 1\n"
       "  ebb feed clicks day1.npz --keep_open\n"
       "  ebb feed clicks day1.npz day2.npz       # later: day1 is there already\n",
       2,
       std::numeric_limits<size_t>::max(),
       {{"epochs", "N", "push all files so many times (default 1)"},
        {"shuffle", "SEED", "shuffle the rows of a file as a job that reads it does by seed.data"},
        {"keep_open", "", "more will follow: do not end the job when the files end"}},
       Feed},
  };
}

}  // namespace ebb::cli
