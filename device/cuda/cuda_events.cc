#include "device/cuda/cuda_events.h"

#include <algorithm>

#include "base/check.h"

namespace ebb::device::cuda {
namespace {

// The API tells time between two events in single precision: beyond this it loses microseconds, and
// the two clocks drift apart.
constexpr Micros kAnchorAge(500'000);
// How often the oldest events are looked at: at first soon, since much work is short.
constexpr absl::Duration kShortNap = absl::Microseconds(20);
constexpr absl::Duration kLongNap = absl::Microseconds(100);
constexpr int kShortNaps = 50;
constexpr size_t kEvents = 256;  // 20 streams with 4 launches of 3 events in flight take fewer

}  // namespace

EventPool::EventPool(std::shared_ptr<Api> api) : api_(std::move(api)) {
  MutexLock lock(&mu_);
  free_.reserve(2 * kEvents);
  while (free_.size() < kEvents) {
    const absl::StatusOr<Event> event = api_->CreateEvent();
    if (!event.ok()) return;  // whoever needs it is told
    free_.push_back(*event);
  }
}

EventPool::~EventPool() {
  for (const Event event : free_) api_->DestroyEvent(event);
}

absl::StatusOr<Event> EventPool::Take() {
  {
    MutexLock lock(&mu_);
    if (!free_.empty()) {
      const Event event = free_.back();
      free_.pop_back();
      return event;
    }
  }
  return api_->CreateEvent();
}

void EventPool::Give(Event event) {
  if (event == nullptr) return;
  MutexLock lock(&mu_);
  free_.push_back(event);
}

EventRecord::~EventRecord() {
  pool->Give(begin);
  pool->Give(end);
}

CudaEvents::CudaEvents(std::shared_ptr<Api> api, Stream clock_stream)
    : api_(std::move(api)), clock_stream_(clock_stream), pool_(std::make_shared<EventPool>(api_)) {
  MutexLock lock(&mu_);
  events_.reserve(1024);  // no growth while steps run
  KeepAnchor();
}

EventId CudaEvents::Add(std::shared_ptr<EventRecord> record) {
  MutexLock lock(&mu_);
  const EventId id(next_event_++);
  events_.emplace(id, record);
  auto line = std::find_if(lines_.begin(), lines_.end(),
                           [&](const Line& l) { return l.stream == record->stream; });
  if (line == lines_.end()) {
    // Streams that are gone leave lines behind.
    line = std::find_if(lines_.begin(), lines_.end(),
                        [](const Line& l) { return !l.stream.valid() && l.pending.empty(); });
    if (line == lines_.end()) line = lines_.insert(line, Line());
    *line = {.stream = record->stream, .pending = {}, .end = Micros(0)};
  }
  line->pending.push_back(std::move(record));
  if (!health_.ok()) HarvestLocked();
  changed_.SignalAll();  // a sleeper with nothing pending has something to look at
  return id;
}

std::shared_ptr<EventRecord> CudaEvents::Find(EventId event) const {
  MutexLock lock(&mu_);
  const auto it = events_.find(event);
  EBB_CHECK(it != events_.end());
  return it->second;
}

bool CudaEvents::Complete(const EventRecord& record) const {
  MutexLock lock(&mu_);
  return record.state.complete;
}

EventState CudaEvents::Query(EventId event) {
  MutexLock lock(&mu_);
  const auto it = events_.find(event);
  EBB_CHECK(it != events_.end());
  if (!it->second->state.complete && IsComplete(*it->second)) HarvestLocked();
  return it->second->state;
}

void CudaEvents::Release(EventId event) {
  MutexLock lock(&mu_);
  EBB_CHECK(events_.erase(event) == 1);
}

void CudaEvents::Harvest() {
  MutexLock lock(&mu_);
  HarvestLocked();
}

void CudaEvents::Forget(StreamId stream) {
  MutexLock lock(&mu_);
  for (Line& line : lines_) {
    if (line.stream == stream) line.stream = StreamId();
  }
}

bool CudaEvents::IsComplete(const EventRecord& record) {
  if (!health_.ok() || record.end == nullptr) return true;
  const absl::StatusOr<bool> complete = api_->Query(record.end);
  if (complete.ok()) return *complete;
  LoseLocked(complete.status());  // nothing can be known any more
  return true;
}

// An event is complete when those before it on its stream and those that its work waited for are:
// that is so on the GPU, and stamps are made in that order.
void CudaEvents::HarvestLocked() {
  const auto ready = [&](const EventRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return std::all_of(record.waited.begin(), record.waited.end(),
                       [](const auto& waited) { return waited->state.complete; }) &&
           IsComplete(record);
  };
  bool any = false;
  for (bool again = true; again;) {
    again = false;
    for (Line& line : lines_) {
      while (!line.pending.empty() && ready(*line.pending.front())) {
        EventRecord& record = *line.pending.front();
        record.state.start = line.end;  // at least
        Finish(record);
        line.end = record.state.end;
        line.pending.pop_front();
        again = true;
      }
    }
    any |= again;
  }
  KeepAnchor();
  if (any) {
    ++progress_;
    changed_.SignalAll();
  }
}

void CudaEvents::Finish(EventRecord& record) {
  EventState& state = record.state;
  Stamp(record);
  if (record.progress != nullptr) record.progress->complete = record.launches;
  state.status = health_.ok() ? record.enqueued : health_;
  record.waited.clear();
  state.complete = true;
}

void CudaEvents::Stamp(EventRecord& record) {
  EventState& state = record.state;
  const Micros now = Now();
  Micros start = now, duration(0);
  if (health_.ok() && record.end != nullptr && anchor_.event != nullptr) {
    const Event begin = record.begin != nullptr ? record.begin : record.end;
    const absl::StatusOr<Micros> since = api_->Elapsed(anchor_.event, begin);
    if (since.ok()) start = anchor_.host + *since;
    if (record.begin != nullptr && since.ok()) {
      duration = api_->Elapsed(record.begin, record.end).value_or(Micros(0));
    }
  }
  // Causes come before effects, whatever the clocks' rounding says.
  state.start = std::max(state.start, start);
  for (const auto& waited : record.waited) {
    state.start = std::max(state.start, waited->state.end);
  }
  state.start = std::min(state.start, now);
  state.end = std::min(state.start + std::max(duration, Micros(0)), now);
}

// The anchor's host time is taken before the event is recorded, so that no stamp is in the future.
void CudaEvents::KeepAnchor() {
  if (!health_.ok()) return;
  if (next_anchor_.event != nullptr) {
    if (!api_->Query(next_anchor_.event).value_or(false)) return;
    pool_->Give(anchor_.event);
    anchor_ = next_anchor_;
    next_anchor_ = {};
    return;
  }
  if (anchor_.event != nullptr && Now() - anchor_.host < kAnchorAge) return;
  const absl::StatusOr<Event> event = pool_->Take();
  if (!event.ok()) return;
  const Micros host = Now();
  if (!api_->Record(clock_stream_, *event).ok()) return pool_->Give(*event);
  next_anchor_ = {*event, host};
}

bool CudaEvents::AnyPending() const {
  return std::any_of(lines_.begin(), lines_.end(),
                     [](const Line& line) { return !line.pending.empty(); });
}

void CudaEvents::Await(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mu_);
  for (int naps = 0;; ++naps) {
    HarvestLocked();
    if (progress_ != progress_seen_) break;
    absl::Duration nap = deadline - absl::Now();
    if (nap <= absl::ZeroDuration()) break;
    if (AnyPending()) nap = std::min(nap, naps < kShortNaps ? kShortNap : kLongNap);
    changed_.WaitWithTimeout(&mu_, nap);
  }
  progress_seen_ = progress_;
}

void CudaEvents::Wake() {
  MutexLock lock(&mu_);
  ++progress_;
  changed_.SignalAll();
}

void CudaEvents::Lose(const absl::Status& status) {
  MutexLock lock(&mu_);
  LoseLocked(status);
  HarvestLocked();
}

void CudaEvents::LoseLocked(const absl::Status& status) {
  if (!health_.ok()) return;
  health_ = status;
  ++progress_;
  changed_.SignalAll();
}

absl::Status CudaEvents::health() const {
  MutexLock lock(&mu_);
  return health_;
}

}  // namespace ebb::device::cuda
