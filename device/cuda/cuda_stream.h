// A stream of the CUDA device: what has been enqueued since its last event. Whoever enqueues holds
// its lock, so that the stream's order and this account of it are one.
#pragma once

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "device/cuda/cuda_events.h"
#include "device/cuda/cuda_program.h"

namespace ebb::device::cuda {

class CudaStream {
 public:
  // Without a handle (`failed` says why): it does no work, and its events fail.
  CudaStream(StreamId id, std::shared_ptr<Api> api, CudaEvents* events);
  ~CudaStream();  // its work must be complete
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  StreamId id() const { return id_; }

  void Launch(const LaunchArgs& args);
  void Copy(void* to, const void* from, Bytes bytes);
  void Write(void* to, absl::Span<const char> bytes);
  EventId Record();
  void Wait(EventId event);
  void Synchronize();  // without the lock: it waits

 private:
  // Before work: when it begins is part of the next event.
  bool Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Keeps a failure for the next event; a lost GPU is told at once.
  void Note(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<Event> RecordNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const StreamId id_;
  const std::shared_ptr<Api> api_;
  CudaEvents* const events_;
  Stream handle_ = nullptr;  // null: could not be had
  absl::Status broken_;      // why

  Mutex mu_;
  const std::shared_ptr<StreamProgress> progress_ = std::make_shared<StreamProgress>();
  int64_t launches_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<const void*> scratch_ ABSL_GUARDED_BY(mu_);
  // Since the last event:
  bool worked_ ABSL_GUARDED_BY(mu_) = false;
  Event begin_ ABSL_GUARDED_BY(mu_) = nullptr;
  absl::Status failed_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<EventRecord>> waited_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ebb::device::cuda
