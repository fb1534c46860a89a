#include "runtime/feed.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/status.h"
#include "data/decode.h"

namespace ebb::runtime {
namespace {

// A queue of so many bytes, within these numbers of batches: enough that a client which sends all
// the time is never what small steps wait for.
constexpr Bytes kQueueBytes = MiB(16);
constexpr int64_t kLeastBatches = 4, kMostBatches = 64;
// Beside the queue: one that is put together, one in its message, and three that are staged.
constexpr int64_t kBesideQueue = 5;
// A row must fit a message of the wire, with what is around it.
constexpr Bytes kMostRowBytes = MiB(48);
constexpr Bytes kMostBatchBytes = GiB(16);

std::string Drawn() {
  std::random_device random;
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
}

Bytes Sum(const Feed::Fields& fields) {
  Bytes sum;
  for (const auto& [name, type] : fields) sum += type.bytes();
  return sum;
}

// One row of zeros, which stands for the types of all.
absl::StatusOr<std::shared_ptr<const data::DataSet>> RowOf(const FeedSpec& spec) {
  if (spec.schema.empty()) {
    return absl::InvalidArgumentError(
        "schema is missing; name the fields of a row, such as {x: \"f32[13]\", label: i64}");
  }
  const Bytes bytes = Sum(spec.schema);
  if (bytes > kMostRowBytes) {
    return absl::InvalidArgumentError(absl::StrCat("schema: a row has ", FormatBytes(bytes),
                                                   "; at most ", FormatBytes(kMostRowBytes),
                                                   ", since it must fit a message"));
  }
  std::map<std::string, graph::HostTensor> row;
  for (const auto& [name, type] : spec.schema) {
    graph::TensorType one = type;
    one.shape.insert(one.shape.begin(), 1);
    row[name] = graph::HostTensor::Zeros(std::move(one));
  }
  return data::DataSet::Create(std::move(row));
}

// Within this process.
size_t Hash(const std::map<std::string, graph::HostTensor>& fields) {
  size_t hash = 0;
  for (const auto& [name, tensor] : fields) {
    const absl::string_view bytes(reinterpret_cast<const char*>(tensor.data.data()),
                                  tensor.data.size());
    hash = absl::HashOf(hash, name, bytes);
  }
  return hash;
}

absl::Status CheckAllAreRead(const FeedSpec& spec, const data::BatchSource& like) {
  for (const auto& [name, type] : spec.schema) {
    const bool read =
        std::any_of(like.bindings.begin(), like.bindings.end(),
                    [&, &name = name](const auto& binding) { return binding.field == name; });
    if (!read) {
      return absl::InvalidArgumentError(
          absl::StrCat("schema: ", data::Quoted(name),
                       " feeds no input of the model; remove it, or bind an input to it"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Feed>> Feed::Create(const FeedSpec& spec, data::BatchSource like) {
  like.order = data::BatchSource::Order::kSequential;
  EBB_ASSIGN_OR_RETURN(auto row, RowOf(spec));
  data::BatchSource example = like;
  example.data = std::move(row);
  example.rows = {0};
  example.tail = data::BatchSource::Tail::kPad;
  EBB_RETURN_IF_ERROR(Annotate(data::Validate(example), "schema"));
  EBB_RETURN_IF_ERROR(CheckAllAreRead(spec, like));
  const Bytes bytes = Sum(spec.schema);
  if (bytes > Bytes(0) && like.batch_size > kMostBatchBytes.count() / bytes.count()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of ", like.batch_size, " rows of ", FormatBytes(bytes),
                     " has more than ", FormatBytes(kMostBatchBytes), "; lower batch_size"));
  }
  Fields fields = spec.schema;
  for (auto& [name, type] : fields) type.shape.insert(type.shape.begin(), like.batch_size);
  like.rows.resize(static_cast<size_t>(like.batch_size));
  std::iota(like.rows.begin(), like.rows.end(), 0);
  return std::shared_ptr<Feed>(new Feed(std::move(fields), std::move(like)));
}

Feed::Feed(Fields fields, data::BatchSource like)
    : fields_(std::move(fields)),
      identity_(Drawn()),
      like_(std::move(like)),
      batch_bytes_(Sum(fields_)),
      capacity_(std::clamp(kQueueBytes.count() / std::max<int64_t>(1, batch_bytes_.count()),
                           kLeastBatches, kMostBatches)),
      since_(absl::Now()) {}

Bytes Feed::HostBytes() const { return batch_bytes_ * (capacity_ + kBesideQueue); }

void Feed::Changed() {
  ++version_;
  changed_.SignalAll();
}

void Feed::TellEngine() {
  Changed();
  if (tell_) tell_();
}

// --- Whoever receives the batches.

int64_t Feed::Credits() const {
  if (finished_ || end_) return 0;
  const int64_t room = capacity_ - static_cast<int64_t>(queue_.size());
  return std::max<int64_t>(0, std::min(room, wanted_ - next_));
}

Feed::Position Feed::Now() const {
  MutexLock lock(&mu_);
  return {.next = next_,
          .credits = Credits(),
          .steps = steps_,
          .wanted = wanted_,
          .ended = finished_,
          .why = why_,
          .version = version_};
}

Feed::Position Feed::WaitForChange(uint64_t seen, absl::Time deadline) const {
  {
    MutexLock lock(&mu_);
    while (version_ == seen) {
      const absl::Duration left = deadline - absl::Now();
      if (left <= absl::ZeroDuration()) break;
      changed_.WaitWithTimeout(&mu_, left);
    }
  }
  return Now();
}

bool Feed::AwaitRoom(Stream stream, absl::Time deadline) const {
  MutexLock lock(&mu_);
  // After the end a batch is refused, which needs no room.
  while (stream == newest_ && !finished_ && !end_ && Credits() == 0) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    changed_.WaitWithTimeout(&mu_, left);
  }
  return true;
}

absl::Status Feed::CheckNumber(int64_t number) const {
  if (number < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch ", number, ": batches are numbered from 0"));
  }
  if (number < next_) return absl::OkStatus();
  if (end_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "batch ", number, ": the feed has ended after ", *end_, " batches; nothing follows"));
  }
  if (number > next_) {
    return absl::InvalidArgumentError(absl::StrCat("batch ", number, " is not the next one; batch ",
                                                   next_, " is wanted: send all, in order"));
  }
  if (Credits() == 0) return absl::ResourceExhaustedError("there is no room for another batch");
  return absl::OkStatus();
}

absl::Status Feed::CheckFields(const std::map<std::string, graph::HostTensor>& fields) const {
  for (const auto& [name, tensor] : fields) {
    const auto wanted = fields_.find(name);
    if (wanted == fields_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("field ", data::Quoted(name), " is not in data.train.schema"));
    }
    if (tensor.type != wanted->second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "field ", data::Quoted(name), " is ", ToString(tensor.type), "; a batch of the job has ",
          ToString(wanted->second), " (data.train.schema and batch_size)"));
    }
    EBB_CHECK(Bytes(static_cast<int64_t>(tensor.data.size())) == tensor.type.bytes());
    if (tensor.type.dtype != graph::DType::kBool) continue;
    const auto odd = std::find_if(tensor.data.begin(), tensor.data.end(),
                                  [](std::byte value) { return value > std::byte{1}; });
    if (odd != tensor.data.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("field ", data::Quoted(name), ", element ", odd - tensor.data.begin(), ": ",
                       static_cast<int>(*odd), " is no bool; give 0 or 1"));
    }
  }
  for (const auto& [name, type] : fields_) {
    if (!fields.contains(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("field ", data::Quoted(name), " is missing; it is ", ToString(type)));
    }
  }
  return absl::OkStatus();
}

absl::Status Feed::Push(Stream stream, int64_t number,
                        std::map<std::string, graph::HostTensor> fields) {
  const auto check = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    EBB_RETURN_IF_ERROR(CheckOpen(stream));
    return CheckNumber(number);
  };
  {
    MutexLock lock(&mu_);
    EBB_RETURN_IF_ERROR(check());
    if (number < next_) return absl::OkStatus();  // sent again
  }
  const std::string batch = absl::StrCat("batch ", number);
  EBB_RETURN_IF_ERROR(Annotate(CheckFields(fields), batch));
  const size_t hash = Hash(fields);
  auto source = std::make_shared<data::BatchSource>(like_);
  EBB_ASSIGN_OR_RETURN(source->data, data::DataSet::Create(std::move(fields)));
  EBB_RETURN_IF_ERROR(Annotate(data::Validate(*source), batch));
  MutexLock lock(&mu_);
  EBB_RETURN_IF_ERROR(check());  // what has changed meanwhile
  if (number < next_) return absl::OkStatus();
  queue_.push_back(std::move(source));
  ++next_;
  last_ = {hash, client_};
  TellEngine();
  return absl::OkStatus();
}

absl::Status Feed::Compare(Stream stream, int64_t number,
                           const std::map<std::string, graph::HostTensor>& fields) const {
  const size_t hash = Hash(fields);
  MutexLock lock(&mu_);
  EBB_RETURN_IF_ERROR(CheckOpen(stream));
  if (number < 0 || number != next_ - 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch ", number, " cannot be compared: only the last one that was taken can, ",
        next_ == 0 ? "and there is none" : absl::StrCat("batch ", next_ - 1)));
  }
  if (hash == last_.hash) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("batch ", number, " is not the one that ", Who(last_.client),
                   " has fed: this is another source, or has another order. Go on with what the "
                   "job was fed with "
                   "so far; or, if that is meant, without comparing (ebb feed --other_source)"));
}

absl::Status Feed::End(Stream stream, int64_t batches) {
  MutexLock lock(&mu_);
  EBB_RETURN_IF_ERROR(CheckOpen(stream));
  if (end_ == batches) return absl::OkStatus();  // said again
  if (end_) {
    return absl::FailedPreconditionError(
        absl::StrCat("the feed has ended after ", *end_, " batches, not after ", batches));
  }
  if (batches != next_) {
    return absl::InvalidArgumentError(absl::StrCat("the feed cannot end after ", batches,
                                                   " batches: batch ", next_,
                                                   " is the next one that is wanted"));
  }
  end_ = batches;
  TellEngine();
  return absl::OkStatus();
}

// --- The engine.

void Feed::OnChange(std::function<void()> changed) {
  MutexLock lock(&mu_);
  tell_ = std::move(changed);
}

bool Feed::Has(int64_t number) const {
  MutexLock lock(&mu_);
  return number < next_;
}

std::shared_ptr<const data::BatchSource> Feed::Take(int64_t number) {
  MutexLock lock(&mu_);
  EBB_CHECK(!queue_.empty() && number == next_ - static_cast<int64_t>(queue_.size()));
  std::shared_ptr<const data::BatchSource> batch = std::move(queue_.front());
  queue_.pop_front();
  Changed();
  return batch;
}

std::optional<int64_t> Feed::end() const {
  MutexLock lock(&mu_);
  return end_;
}

void Feed::SetWanted(int64_t batches) {
  MutexLock lock(&mu_);
  wanted_ = batches;
  Changed();
}

void Feed::SetSteps(int64_t done) {
  MutexLock lock(&mu_);
  steps_ = done;
  Changed();
}

void Feed::Finish(JobState state, const std::string& why) {
  MutexLock lock(&mu_);
  finished_ = state;
  why_ = why;
  tell_ = nullptr;
  queue_.clear();
  Changed();
}

}  // namespace ebb::runtime
