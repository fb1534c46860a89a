#include "client/feed.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "proto/text_fields.h"

namespace ebb::client {
namespace {

// Rows of a batch go in messages of at most about so many bytes.
constexpr int64_t kMessageBytes = 16 << 20;
constexpr absl::Duration kRetry = absl::Milliseconds(200);

// One call: a thread reads positions while the caller writes batches.
class Connection {
 public:
  Connection(Client* client, const FeedOptions& options)
      : options_(options), stream_(client->Feed(&context_)) {}
  ~Connection() {
    if (reader_.joinable()) {
      context_.TryCancel();
      reader_.join();
    }
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // False where the call has ended: Finish() says why.
  bool Begin(const v1::FeedRequest::Header& header) {
    v1::FeedRequest request;
    *request.mutable_header() = header;
    if (!stream_->Write(request) || !stream_->Read(&position_)) return false;
    reader_ = std::thread([this] { ReadAll(); });
    return true;
  }

  v1::FeedResponse position() {
    MutexLock lock(&mu_);
    return position_;
  }

  // Waits for room for the batch; false when the call or the job has ended.
  bool AwaitRoom(int64_t number) {
    MutexLock lock(&mu_);
    while (!Over() && number >= position_.next_batch() + position_.credits()) changed_.Wait(&mu_);
    return !Over();
  }

  enum class As { kNext, kCompared };
  bool Send(int64_t number, const FedBatch& batch, As as) {
    const int64_t rows = batch.empty() || batch[0].shape.empty() ? 0 : batch[0].shape[0];
    int64_t bytes = 0;
    for (const FedField& field : batch) bytes += static_cast<int64_t>(field.bytes.size());
    const int64_t row_bytes = std::max<int64_t>(1, bytes / std::max<int64_t>(1, rows));
    const int64_t at_once = std::max<int64_t>(1, kMessageBytes / row_bytes);
    for (int64_t from = 0; from < std::max<int64_t>(1, rows); from += at_once) {
      v1::FeedRequest request;
      request.mutable_batch()->set_number(number);
      request.mutable_batch()->set_compare(as == As::kCompared);
      AddRows(batch, from, std::min(rows, from + at_once), rows, request.mutable_batch());
      if (!stream_->Write(request)) return false;
    }
    return true;
  }

  bool End(int64_t batches) {
    v1::FeedRequest request;
    request.mutable_end()->set_batches(batches);
    return stream_->Write(request);
  }

  grpc::Status Finish() {
    stream_->WritesDone();
    if (reader_.joinable()) reader_.join();
    return stream_->Finish();
  }
  void Break() { context_.TryCancel(); }

 private:
  bool Over() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return over_ || position_.state() != v1::Job::STATE_UNSPECIFIED ||
           !position_.taken_by().empty();
  }
  static void AddRows(const FedBatch& batch, int64_t from, int64_t to, int64_t rows,
                      v1::FeedRequest::Batch* part) {
    part->set_more(to < rows);
    for (const FedField& field : batch) {
      v1::FeedRequest::Field* const out = part->add_fields();
      out->set_name(field.name);
      out->set_dtype(field.dtype);
      out->mutable_shape()->Add(field.shape.begin(), field.shape.end());
      if (from == 0 && to == rows) {
        out->set_data(field.bytes);
        continue;
      }
      out->set_shape(0, to - from);
      const size_t row = field.bytes.size() / static_cast<size_t>(rows);
      out->set_data(field.bytes.substr(static_cast<size_t>(from) * row,
                                       static_cast<size_t>(to - from) * row));
    }
  }

  void ReadAll() {
    v1::FeedResponse response;
    while (stream_->Read(&response)) {
      if (options_.told) options_.told(response);
      MutexLock lock(&mu_);
      position_ = response;
      changed_.SignalAll();
    }
    MutexLock lock(&mu_);
    over_ = true;
    changed_.SignalAll();
  }

  const FeedOptions& options_;
  grpc::ClientContext context_;
  const std::unique_ptr<Client::FeedStream> stream_;
  std::thread reader_;
  Mutex mu_;
  CondVar changed_;
  v1::FeedResponse position_ ABSL_GUARDED_BY(mu_);
  bool over_ ABSL_GUARDED_BY(mu_) = false;
};

absl::StatusOr<std::optional<FedBatch>> Make(const BatchMaker& batches, int64_t number) {
  EBB_ASSIGN_OR_RETURN(std::optional<FedBatch> batch, batches(number));
  if (!batch) return batch;
  for (const FedField& field : *batch) {
    v1::FeedRequest::Field name;
    name.set_name(field.name);
    EBB_RETURN_IF_ERROR(proto::CheckUtf8(name));
  }
  return batch;
}

// The daemon compares the batch before the one that it wants.
absl::Status Compare(Connection& connection, const BatchMaker& batches) {
  const v1::FeedResponse begun = connection.position();
  const int64_t last = begun.next_batch() - 1;
  if (last < 0 || begun.state() != v1::Job::STATE_UNSPECIFIED) return absl::OkStatus();
  EBB_ASSIGN_OR_RETURN(const std::optional<FedBatch> batch, Make(batches, last));
  if (!batch) {
    return absl::FailedPreconditionError(absl::StrCat(
        begun.job(), " has ", last + 1, " batches already, and these data end before the last of ",
        "them: they are not what it was fed with so far"));
  }
  connection.Send(last, *batch, Connection::As::kCompared);  // if not, Finish() says why
  return absl::OkStatus();
}

absl::Status SendAll(Connection& connection, const BatchMaker& batches,
                     const FeedOptions& options) {
  if (options.at_begin == AtBegin::kCompare) EBB_RETURN_IF_ERROR(Compare(connection, batches));
  for (int64_t n = connection.position().next_batch();; ++n) {
    EBB_ASSIGN_OR_RETURN(const std::optional<FedBatch> batch, Make(batches, n));
    if (!batch) {
      if (options.at_end == AtEnd::kEnd) connection.End(n);
      break;
    }
    if (!connection.AwaitRoom(n) || !connection.Send(n, *batch, Connection::As::kNext)) break;
  }
  return absl::OkStatus();
}

// No other call has it.
std::string ClientName(const std::string& name) {
  static std::atomic<int64_t> calls = 0;
  char host[HOST_NAME_MAX + 1] = "";
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  const int64_t call = ++calls;
  return absl::StrCat(name, " (pid ", getpid(), call > 1 ? absl::StrCat(", feed ", call) : "",
                      " on ", host, ")");
}

}  // namespace

absl::StatusOr<v1::FeedResponse> FeedJob(Client* client, const std::string& job,
                                         const BatchMaker& batches, const FeedOptions& options) {
  v1::FeedRequest::Header header;
  header.set_job(job);
  header.set_client(ClientName(options.name));
  header.set_take_over(options.other == OtherClient::kIsEnded);
  EBB_RETURN_IF_ERROR(proto::CheckUtf8(header));
  absl::Time give_up = absl::Now() + options.patience;
  std::string identity;  // of the job that is fed
  for (bool told = false;;) {
    Connection connection(client, options);
    absl::Status mine;
    if (connection.Begin(header)) {
      told = false;
      header.set_take_over(false);  // once it was asked for
      const v1::FeedResponse begun = connection.position();
      if (identity.empty()) identity = begun.identity();
      if (begun.identity() != identity) {
        mine = absl::FailedPreconditionError(
            absl::StrCat(begun.job(),
                         " is another job now: ebbd has been started anew, and jobs do not survive "
                         "that; submit the job again, and feed it by its new id"));
      }
      if (mine.ok() && options.begun) mine = options.begun(begun);
      if (mine.ok()) mine = SendAll(connection, batches, options);
      give_up = absl::Now() + options.patience;
    }
    if (!mine.ok()) connection.Break();
    const absl::Status status = client->Result(connection.Finish());
    EBB_RETURN_IF_ERROR(mine);
    const v1::FeedResponse last = connection.position();
    if (!last.taken_by().empty() && !absl::IsAborted(status)) {  // it was broken off for that
      return absl::AbortedError(
          absl::StrCat("another client has taken the feed: ", last.taken_by()));
    }
    if (status.ok()) return last;
    if (!absl::IsUnavailable(status) || absl::Now() >= give_up) return status;
    if (!told && options.waits) options.waits(status);
    told = true;
    absl::SleepFor(kRetry);
  }
}

}  // namespace ebb::client
