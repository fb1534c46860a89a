// The batches that a job's client pushes: a bounded queue between whoever receives them and the
// steps that read them. Batch n is what optimizer step n reads, whoever sent it and whenever, so
// that a job's result does not depend on how it was fed. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/units.h"
#include "data/dataset.h"
#include "graph/types.h"
#include "runtime/job.h"

namespace ebb::runtime {

class Feed {
 public:
  // Fields of a batch by name; axis 0 is its rows.
  using Fields = std::map<std::string, graph::TensorType>;

  // For the batches of `like`, which has bindings but no data. InvalidArgument: the schema does not
  // feed them, has a field that feeds none, or rows too large to be sent.
  static absl::StatusOr<std::shared_ptr<Feed>> Create(const FeedSpec& spec, data::BatchSource like);

  const Fields& fields() const { return fields_; }
  // Drawn at random, unlike that of any other feed.
  const std::string& identity() const { return identity_; }
  int64_t rows() const { return like_.batch_size; }
  Bytes batch_bytes() const { return batch_bytes_; }
  // Of the host's memory: the queue, a batch that is being put together, one that is arriving, and
  // those whose rows are being staged.
  Bytes HostBytes() const;

  // --- Whoever receives the batches.

  using Stream = int64_t;
  struct Client {
    std::string name;        // unlike all others; "": it does not say
    bool take_over = false;  // from another that is connected
  };
  // Takes the feed: every later call for the stream before is Aborted. FailedPrecondition: another
  // client is connected, still at the deadline, and this one does not take over.
  absl::StatusOr<Stream> Open(const Client& client, absl::Time deadline);
  // No-op if another has taken the feed.
  void Close(Stream stream);
  // Who, in words, if that is so; "" as long as the stream has it.
  std::string TakenBy(Stream stream) const;

  struct Position {
    int64_t next = 0;               // the batch that is wanted
    int64_t credits = 0;            // so many from there on have room now
    int64_t steps = 0;              // optimizer steps that are complete
    int64_t wanted = 0;             // batches that the job reads at most
    std::optional<JobState> ended;  // it has: how
    std::string why;                // of a failure
    uint64_t version = 0;           // grows with every change
  };
  Position Now() const;
  // Blocks until the version differs from `seen` or the deadline has passed.
  Position WaitForChange(uint64_t seen, absl::Time deadline) const;

  // True when there is room for the next batch, the job has ended or another stream has the feed;
  // false when the deadline has passed.
  bool AwaitRoom(Stream stream, absl::Time deadline) const;
  // Takes batch `number`. One that has been taken already is ignored. InvalidArgument: a gap, or
  // fields, shapes, types or values that the job cannot read; the batch is still wanted then.
  // FailedPrecondition: after the end, or the job has ended. ResourceExhausted: there is no room.
  absl::Status Push(Stream stream, int64_t number, std::map<std::string, graph::HostTensor> fields);
  // FailedPrecondition: `number`, the last batch that was taken, had other values.
  absl::Status Compare(Stream stream, int64_t number,
                       const std::map<std::string, graph::HostTensor>& fields) const;
  // There are `batches` in all, all of them taken.
  absl::Status End(Stream stream, int64_t batches);

  // --- The engine.

  // Called after what the engine should know of, until Finish(), on the caller's thread and with
  // the feed locked: it must not call the feed.
  void OnChange(std::function<void()> changed);
  bool Has(int64_t number) const;
  // REQUIRES Has(number), and the batches before it have been taken.
  std::shared_ptr<const data::BatchSource> Take(int64_t number);
  std::optional<int64_t> end() const;  // batches in all, once that is known
  void SetWanted(int64_t batches);
  void SetSteps(int64_t done);
  void Finish(JobState state, const std::string& why);
  // "feed connected since 12:03:41".
  std::string LinkInWords() const;
  // What a job does that has no batch `number`; "" if that is here by now.
  std::string WaitInWords(int64_t number) const;
  bool connected() const;

 private:
  Feed(Fields fields, data::BatchSource like);
  absl::Status CheckOpen(Stream stream) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckNumber(int64_t number) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static std::string Who(const std::string& client);
  std::string Link() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckFields(const std::map<std::string, graph::HostTensor>& fields) const;
  int64_t Credits() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Changed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TellEngine() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Fields fields_;
  const std::string identity_;
  data::BatchSource like_;  // constant after Create()
  const Bytes batch_bytes_;
  const int64_t capacity_;

  mutable Mutex mu_;
  mutable CondVar changed_;
  std::function<void()> tell_ ABSL_GUARDED_BY(mu_);
  std::deque<std::shared_ptr<const data::BatchSource>> queue_ ABSL_GUARDED_BY(mu_);
  int64_t next_ ABSL_GUARDED_BY(mu_) = 0;  // the queue ends before it
  int64_t wanted_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t steps_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<int64_t> end_ ABSL_GUARDED_BY(mu_);
  std::optional<JobState> finished_ ABSL_GUARDED_BY(mu_);
  std::string why_ ABSL_GUARDED_BY(mu_);
  Stream newest_ ABSL_GUARDED_BY(mu_) = 0;  // 0: there was none
  bool connected_ ABSL_GUARDED_BY(mu_) = false;
  absl::Time since_ ABSL_GUARDED_BY(mu_);    // connected, or not
  std::string client_ ABSL_GUARDED_BY(mu_);  // the newest
  struct Last {
    size_t hash = 0;
    std::string client;
  };
  Last last_ ABSL_GUARDED_BY(mu_);  // batch next_ - 1
  uint64_t version_ ABSL_GUARDED_BY(mu_) = 1;
};

}  // namespace ebb::runtime
