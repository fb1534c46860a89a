// The events of the CUDA device: which are complete, with which status and stamps. Nothing calls
// back: whoever asks, or sleeps in Await(), looks at the oldest ones of every stream. Thread-safe.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "device/cuda/api.h"
#include "device/cuda/graph_cache.h"
#include "device/device.h"

namespace ebb::device::cuda {

// Events of the API, used again and again.
class EventPool {
 public:
  // With as many as streams in flight take, so that none is created while steps run.
  explicit EventPool(std::shared_ptr<Api> api);
  ~EventPool();
  absl::StatusOr<Event> Take();
  void Give(Event event);  // null is fine

 private:
  const std::shared_ptr<Api> api_;
  Mutex mu_;
  std::vector<Event> free_ ABSL_GUARDED_BY(mu_);
};

// A recorded event. What is above `state` does not change once it has been added.
struct EventRecord {
  explicit EventRecord(std::shared_ptr<EventPool> p) : pool(std::move(p)) {}
  ~EventRecord();
  EventRecord(const EventRecord&) = delete;
  EventRecord& operator=(const EventRecord&) = delete;

  const std::shared_ptr<EventPool> pool;
  StreamId stream;
  Event begin = nullptr;  // before the first work since the event before; null: there was none
  Event end = nullptr;    // null: complete when it was recorded
  absl::Status enqueued;  // of the calls that enqueued that work
  std::shared_ptr<StreamProgress> progress;
  int64_t launches = 0;  // on the stream, up to here

  // Guarded by CudaEvents.
  std::vector<std::shared_ptr<EventRecord>> waited;  // for which that work waited; until complete
  EventState state;
};

class CudaEvents {
 public:
  // `clock_stream` is for the device's clock alone; it has no work.
  CudaEvents(std::shared_ptr<Api> api, Stream clock_stream);

  // The device's clock: the host's steady one, to which the GPU's stamps are converted.
  Micros Now() const { return clock_.Now(); }
  const std::shared_ptr<EventPool>& pool() const { return pool_; }

  // In the order of recording within a stream.
  EventId Add(std::shared_ptr<EventRecord> record);
  // The record of an id that has not been released.
  std::shared_ptr<EventRecord> Find(EventId event) const;
  bool Complete(const EventRecord& record) const;
  EventState Query(EventId event);
  void Release(EventId event);
  // Looks at what has become complete.
  void Harvest();
  // The stream is gone; all of its events are complete.
  void Forget(StreamId stream);

  void Await(absl::Duration timeout);
  void Wake();

  // The GPU is lost to this process: all events complete with this status, now and later.
  void Lose(const absl::Status& status);
  absl::Status health() const;

 private:
  struct Anchor {  // a moment on both clocks
    Event event = nullptr;
    Micros host;
  };

  bool IsComplete(const EventRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void HarvestLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Finish(EventRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Stamp(EventRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void KeepAnchor() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void LoseLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AnyPending() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<Api> api_;
  const Stream clock_stream_;
  const SteadyClock clock_;
  const std::shared_ptr<EventPool> pool_;

  // Held while the API is asked about events, which never waits.
  mutable Mutex mu_;
  CondVar changed_;
  int64_t progress_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t progress_seen_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t next_event_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<EventId, std::shared_ptr<EventRecord>> events_ ABSL_GUARDED_BY(mu_);
  struct Line {  // of a stream: what is pending, and when the newest complete one ended
    StreamId stream;
    std::deque<std::shared_ptr<EventRecord>> pending;
    Micros end;
  };
  std::vector<Line> lines_ ABSL_GUARDED_BY(mu_);
  Anchor anchor_ ABSL_GUARDED_BY(mu_), next_anchor_ ABSL_GUARDED_BY(mu_);
  absl::Status health_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ebb::device::cuda
