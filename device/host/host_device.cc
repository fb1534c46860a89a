// A stream is a worker thread with a queue of tasks; an event is completed by the worker when it
// comes to the event's task.
#include "device/host/host_device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <fstream>
#include <thread>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "device/host/host_program.h"

namespace ebb::device {
namespace {

struct CopyTask {
  void* to;
  const void* from;
  size_t bytes;
};

struct WriteTask {
  void* to;
  size_t bytes;
  std::array<char, 64> data;
};

struct RecordTask {
  std::shared_ptr<EventState> event;
};

struct WaitTask {
  std::shared_ptr<EventState> event;
};

// Does the work of a launch, copy or write.
struct Runner {
  absl::Status operator()(const LaunchArgs& launch) const {
    return static_cast<const HostProgram*>(launch.program)
        ->Run(*launch.bindings, launch.first, launch.last);
  }
  absl::Status operator()(const CopyTask& copy) const {
    if (copy.bytes > 0) std::memcpy(copy.to, copy.from, copy.bytes);
    return absl::OkStatus();
  }
  absl::Status operator()(const WriteTask& write) const {
    std::memcpy(write.to, write.data.data(), write.bytes);
    return absl::OkStatus();
  }
  absl::Status operator()(const RecordTask&) const { return absl::OkStatus(); }
  absl::Status operator()(const WaitTask&) const { return absl::OkStatus(); }
};

std::string ProcessorName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

}  // namespace

struct HostDevice::Task {
  std::variant<LaunchArgs, CopyTask, WriteTask, RecordTask, WaitTask> what;
};

// Everything but `thread` is guarded by the device's mu_ (the analysis cannot express that).
struct HostDevice::Stream {
  std::thread thread;
  CondVar work_changed;  // a task was added, or `closing` set
  std::deque<Task> tasks;
  bool busy = false;  // the worker is at a task that it has taken off the queue
  bool closing = false;
  // Of the work since the last event: its first failure, and when it began and ended.
  absl::Status status;
  bool worked = false;
  Micros start;
  Micros end;
};

DeviceSpec HostSpec(const std::string& kind, int threads_per_stream) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return {.kind = kind,
          .name = ProcessorName(),
          .memory = UsableHostMemory(),
          .granule = HostGranules().granule(),
          .alignment = Bytes(64),
          .parallelism = std::max(1, cores / threads_per_stream),
          .threads_per_stream = threads_per_stream};
}

HostDevice::HostDevice(HostConfig config) : config_(std::move(config)) {
  MutexLock lock(&mu_);
  events_.reserve(1024);  // no growth while steps run
}

HostDevice::~HostDevice() {
  std::vector<StreamId> streams;
  {
    MutexLock lock(&mu_);
    for (const auto& [id, stream] : streams_) streams.push_back(id);
  }
  for (StreamId stream : streams) DestroyStream(stream);
}

absl::StatusOr<std::unique_ptr<Program>> HostDevice::Compile(const graph::Graph& graph) const {
  return HostProgram::Make(graph, config_.spec.kind, config_.find_kernel);
}

HostDevice::Stream* HostDevice::Find(StreamId stream) const {
  auto it = streams_.find(stream);
  EBB_CHECK(it != streams_.end());
  return it->second.get();
}

StreamId HostDevice::CreateStream() {
  auto stream = std::make_unique<Stream>();
  Stream* raw = stream.get();
  MutexLock lock(&mu_);
  const StreamId id(next_stream_++);
  streams_.emplace(id, std::move(stream));
  raw->thread = std::thread([this, raw] { Work(raw); });
  return id;
}

void HostDevice::DestroyStream(StreamId id) {
  Stream* stream = nullptr;
  {
    MutexLock lock(&mu_);
    stream = Find(id);
    stream->closing = true;
    stream->work_changed.Signal();
  }
  stream->thread.join();
  MutexLock lock(&mu_);
  streams_.erase(id);
}

void HostDevice::Enqueue(StreamId id, Task task) {
  MutexLock lock(&mu_);
  Stream* stream = Find(id);
  EBB_CHECK(!stream->closing);
  stream->tasks.push_back(std::move(task));
  stream->work_changed.Signal();
}

void HostDevice::Launch(StreamId stream, const LaunchArgs& args) { Enqueue(stream, {args}); }

void HostDevice::Copy(StreamId stream, void* to, const void* from, Bytes bytes) {
  Enqueue(stream, {CopyTask{to, from, static_cast<size_t>(bytes.count())}});
}

void HostDevice::Write(StreamId stream, void* to, absl::Span<const char> bytes) {
  WriteTask task{.to = to, .bytes = bytes.size(), .data = {}};
  EBB_CHECK(bytes.size() <= task.data.size());
  std::copy(bytes.begin(), bytes.end(), task.data.begin());
  Enqueue(stream, {task});
}

EventId HostDevice::Record(StreamId id) {
  auto event = std::make_shared<EventState>();
  MutexLock lock(&mu_);
  const EventId event_id(next_event_++);
  events_.emplace(event_id, event);
  Stream* stream = Find(id);
  EBB_CHECK(!stream->closing);
  stream->tasks.push_back({RecordTask{std::move(event)}});
  stream->work_changed.Signal();
  return event_id;
}

void HostDevice::Wait(StreamId id, EventId event) {
  MutexLock lock(&mu_);
  auto it = events_.find(event);
  EBB_CHECK(it != events_.end());
  if (it->second->complete) return;
  Stream* stream = Find(id);
  EBB_CHECK(!stream->closing);
  stream->tasks.push_back({WaitTask{it->second}});
  stream->work_changed.Signal();
}

EventState HostDevice::Query(EventId event) const {
  MutexLock lock(&mu_);
  auto it = events_.find(event);
  EBB_CHECK(it != events_.end());
  return *it->second;
}

void HostDevice::Release(EventId event) {
  MutexLock lock(&mu_);
  EBB_CHECK(events_.erase(event) == 1);
}

void HostDevice::AwaitProgress(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mu_);
  while (progress_ == progress_seen_) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) break;
    progress_changed_.WaitWithTimeout(&mu_, left);
  }
  progress_seen_ = progress_;
}

void HostDevice::Wake() {
  MutexLock lock(&mu_);
  ++progress_;
  progress_changed_.SignalAll();
}

void HostDevice::Synchronize(StreamId id) {
  MutexLock lock(&mu_);
  Stream* stream = Find(id);
  while (stream->busy || !stream->tasks.empty()) progress_changed_.Wait(&mu_);
}

void HostDevice::Complete(Stream* stream, EventState* event) {
  const Micros now = clock_.Now();
  event->start = stream->worked ? stream->start : now;
  event->end = stream->worked ? stream->end : now;
  event->status = std::exchange(stream->status, absl::OkStatus());
  event->complete = true;
  stream->worked = false;
  ++progress_;
  progress_changed_.SignalAll();
}

void HostDevice::Work(Stream* stream) {
  if (config_.thread_setup) config_.thread_setup();
  MutexLock lock(&mu_);
  while (true) {
    while (stream->tasks.empty() && !stream->closing) stream->work_changed.Wait(&mu_);
    if (stream->tasks.empty()) return;
    Task task = std::move(stream->tasks.front());
    stream->tasks.pop_front();
    stream->busy = true;
    if (const auto* record = std::get_if<RecordTask>(&task.what)) {
      Complete(stream, record->event.get());
    } else if (const auto* wait = std::get_if<WaitTask>(&task.what)) {
      while (!wait->event->complete) progress_changed_.Wait(&mu_);
    } else {
      mu_.Unlock();
      const Micros start = clock_.Now();
      absl::Status status = std::visit(Runner(), task.what);
      const Micros end = clock_.Now();
      mu_.Lock();
      if (!std::exchange(stream->worked, true)) stream->start = start;
      stream->end = end;
      stream->status.Update(status);
    }
    stream->busy = false;
    if (stream->tasks.empty()) progress_changed_.SignalAll();  // for Synchronize
  }
}

}  // namespace ebb::device
