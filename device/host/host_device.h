// The machinery that `ref` and `cpu` share: memory by mmap, streams as worker threads, events. A
// host device is this class with a table of kernels. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "device/device.h"
#include "device/host/host_memory.h"
#include "device/kernel.h"

namespace ebb::device {

struct HostConfig {
  DeviceSpec spec;
  // The kernel factory of an op; null when there is none.
  std::function<KernelFactory(absl::string_view op)> find_kernel;
  // Called first on the worker thread of every stream. May be empty.
  std::function<void()> thread_setup;
};

// The spec of this machine as a device of `kind` whose streams use `threads_per_stream` (> 0)
// threads.
DeviceSpec HostSpec(const std::string& kind, int threads_per_stream);

class HostDevice : public Device {
 public:
  explicit HostDevice(HostConfig config);
  ~HostDevice() override;  // waits for all work
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;

  const DeviceSpec& spec() const override { return config_.spec; }
  memory::GranuleSource& granules() override { return granules_; }
  absl::StatusOr<char*> AllocateHost(Bytes bytes) override {
    return AllocateHostMemory(bytes, HostBacking::kMemory);
  }
  void FreeHost(char* memory, Bytes bytes) override { FreeHostMemory(memory, bytes); }
  absl::StatusOr<std::unique_ptr<Program>> Compile(const graph::Graph& graph) const override;

  StreamId CreateStream() override;
  void DestroyStream(StreamId stream) override;
  void Launch(StreamId stream, const LaunchArgs& args) override;
  void Copy(StreamId stream, void* to, const void* from, Bytes bytes) override;
  void Write(StreamId stream, void* to, absl::Span<const char> bytes) override;
  EventId Record(StreamId stream) override;
  void Wait(StreamId stream, EventId event) override;
  EventState Query(EventId event) const override;
  void Release(EventId event) override;
  void AwaitProgress(absl::Duration timeout) override;
  void Wake() override;
  void Synchronize(StreamId stream) override;
  Micros Now() const override { return clock_.Now(); }

 private:
  struct Task;
  struct Stream;
  // Shared by the table and by the tasks that complete or await it.
  using Event = std::shared_ptr<EventState>;

  void Enqueue(StreamId stream, Task task);
  void Work(Stream* stream);  // a worker's life
  void Complete(Stream* stream, EventState* event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Stream* Find(StreamId stream) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const HostConfig config_;
  const SteadyClock clock_;
  HostGranules granules_;

  // One lock for all streams: it is held to move tasks and states, never while work runs.
  mutable Mutex mu_;
  CondVar progress_changed_;  // an event completed, a stream ran empty, or Wake()
  int64_t progress_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t progress_seen_ ABSL_GUARDED_BY(mu_) = 0;  // by AwaitProgress
  int32_t next_stream_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t next_event_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<StreamId, std::unique_ptr<Stream>> streams_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<EventId, Event> events_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ebb::device
