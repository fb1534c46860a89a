#include "device/cuda/cuda_stream.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace ebb::device::cuda {

CudaStream::CudaStream(StreamId id, std::shared_ptr<Api> api, CudaEvents* events)
    : id_(id), api_(std::move(api)), events_(events) {
  const absl::StatusOr<Stream> handle = api_->CreateStream();
  handle_ = handle.value_or(nullptr);
  broken_ = handle.status();
  if (IsSticky(broken_)) events_->Lose(broken_);
  MutexLock lock(&mu_);
  failed_ = broken_;
}

CudaStream::~CudaStream() {
  if (handle_ != nullptr) api_->DestroyStream(handle_);
  events_->pool()->Give(begin_);
}

void CudaStream::Note(const absl::Status& status) {
  failed_.Update(status);
  if (IsSticky(status)) events_->Lose(status);
}

bool CudaStream::Begin() {
  if (handle_ == nullptr || !events_->health().ok()) return false;
  if (std::exchange(worked_, true)) return true;
  // Without a stamp of its own the work is taken to begin when the event is complete.
  const absl::StatusOr<Event> event = RecordNow();
  if (event.ok()) begin_ = *event;
  return true;
}

absl::StatusOr<Event> CudaStream::RecordNow() {
  EBB_ASSIGN_OR_RETURN(const Event event, events_->pool()->Take());
  absl::Status status = api_->Record(handle_, event);
  if (status.ok()) return event;
  events_->pool()->Give(event);
  return status;
}

void CudaStream::Launch(const LaunchArgs& args) {
  const auto& program = static_cast<const CudaProgram&>(*args.program);
  MutexLock lock(&mu_);
  if (!Begin()) return;
  if (absl::Status current = api_->MakeCurrent(); !current.ok()) return Note(current);
  Note(program.Launch(
      {.stream = handle_, .number = ++launches_, .progress = progress_, .scratch = &scratch_},
      *args.bindings, args.first, args.last));
}

void CudaStream::Copy(void* to, const void* from, Bytes bytes) {
  MutexLock lock(&mu_);
  if (bytes == Bytes(0) || !Begin()) return;
  Note(api_->Copy(handle_, to, from, bytes));
}

void CudaStream::Write(void* to, absl::Span<const char> bytes) {
  std::array<char, 64> data{};
  EBB_CHECK(bytes.size() <= data.size());
  std::copy(bytes.begin(), bytes.end(), data.begin());
  MutexLock lock(&mu_);
  if (bytes.empty() || !Begin()) return;
  Note(api_->Write(handle_, to, data, Bytes(static_cast<int64_t>(bytes.size()))));
}

EventId CudaStream::Record() {
  auto record = std::make_shared<EventRecord>(events_->pool());
  MutexLock lock(&mu_);
  record->stream = id_;
  record->begin = std::exchange(begin_, nullptr);
  record->progress = progress_;
  record->launches = launches_;
  record->waited = std::exchange(waited_, {});
  if (handle_ != nullptr && events_->health().ok()) {
    const absl::StatusOr<Event> end = RecordNow();
    if (end.ok()) {
      record->end = *end;
    } else {
      // Nobody will tell when the work is done, so it is waited for.
      Note(end.status());
      Note(api_->Synchronize(handle_));
    }
  }
  worked_ = false;
  record->enqueued = std::exchange(failed_, broken_);
  return events_->Add(std::move(record));
}

void CudaStream::Wait(EventId event) {
  std::shared_ptr<EventRecord> record = events_->Find(event);
  if (record->stream == id_ || events_->Complete(*record)) return;
  MutexLock lock(&mu_);
  if (handle_ == nullptr || record->end == nullptr || !events_->health().ok()) return;
  absl::Status status = api_->Wait(handle_, record->end);
  // Order must not be lost: then the host waits.
  if (!status.ok() && !IsSticky(status)) status = api_->Synchronize(record->end);
  if (!status.ok()) {
    events_->Lose(status);
    return;
  }
  waited_.push_back(std::move(record));
}

void CudaStream::Synchronize() {
  if (handle_ != nullptr && events_->health().ok()) {
    const absl::Status status = api_->Synchronize(handle_);
    if (IsSticky(status)) {
      events_->Lose(status);
    } else if (!status.ok()) {
      MutexLock lock(&mu_);
      failed_.Update(status);
    }
  }
  events_->Harvest();
}

}  // namespace ebb::device::cuda
