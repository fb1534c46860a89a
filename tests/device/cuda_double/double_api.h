// A test double of the seam to CUDA (device/cuda/api.h): streams are threads, memory is the host's,
// graphs are recorded closures. It says no to what CUDA says no to, fails on demand, and counts
// what must not happen while steps run. It proves nothing about the hardware. Thread-safe.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "device/cuda/api.h"
#include "device/cuda/launch.h"

namespace ebb::testing {

struct DoubleStream;
struct DoubleEvent;
struct DoubleGraph;

struct DoubleOptions {
  Bytes memory = GiB(1);
  Bytes granule = KiB(64);
  Bytes own;      // taken by the process at start: context, modules
  Bytes foreign;  // taken by other processes
  device::cuda::LoopOrder loops = device::cuda::LoopOrder::kForwards;  // of own kernels
};

class DoubleApi final : public device::cuda::Api {
 public:
  using Stream = device::cuda::Stream;
  using Event = device::cuda::Event;
  using CapturedGraph = device::cuda::CapturedGraph;
  using ExecutableGraph = device::cuda::ExecutableGraph;

  // What can be made to fail. Non-sticky failures concern one call.
  enum class Fault {
    kMap,           // out of memory
    kHostMemory,    // out of memory
    kCreateStream,  // out of memory
    kCreateEvent,   // out of memory
    kLaunch,        // a kernel is refused
    kRecord,
    kWait,
    kEndCapture,
    kInstantiate,
    kLaunchGraph,
    kStickyCall,  // any call that enqueues returns a sticky error
    kStickyWork,  // a piece of work on a stream brings one about, unseen until somebody asks
  };
  static constexpr int kFaults = static_cast<int>(Fault::kStickyWork) + 1;

  struct Calls {
    int64_t allocations = 0;  // of memory, streams, events and graphs, and what gives them back
    int64_t synchronous = 0;  // waits of the host, copies of host memory that is not page-locked
    int64_t kernels = 0;      // enqueued, not replayed
    int64_t graph_launches = 0;
    int64_t captures = 0;
  };

  explicit DoubleApi(DoubleOptions options);
  ~DoubleApi() override;  // all streams must have been destroyed

  // The `nth` such operation from now on fails (1: the next one).
  void FailAt(Fault fault, int64_t nth);
  Calls calls() const;
  Bytes mapped() const;
  device::cuda::LoopOrder loops() const { return options_.loops; }
  Bytes taken() const;  // mapped at some time: kept, as by the real one
  // Puts work on the stream; what EnqueueOnDouble of launch.h does.
  absl::Status Enqueue(Stream stream, std::function<void()> work);
  // The GPU is lost, as by a fault in a kernel.
  void Die(const std::string& why);

  const device::cuda::Properties& properties() const override { return properties_; }
  absl::Status MakeCurrent() override { return absl::OkStatus(); }
  absl::StatusOr<device::cuda::MemoryInfo> Memory() override;
  absl::StatusOr<Bytes> ForeignMemory() override { return options_.own + options_.foreign; }
  Bytes granule() const override { return options_.granule; }
  absl::StatusOr<char*> Reserve(Bytes bytes) override;
  void Unreserve(char* base, Bytes bytes) override;
  absl::Status Map(char* address, Bytes bytes) override;
  absl::Status Unmap(char* address, Bytes bytes) override;
  absl::StatusOr<char*> AllocateHost(Bytes bytes) override;
  void FreeHost(char* address) override;
  absl::StatusOr<Stream> CreateStream() override;
  void DestroyStream(Stream stream) override;
  absl::Status Synchronize(Stream stream) override;
  absl::StatusOr<Event> CreateEvent() override;
  void DestroyEvent(Event event) override;
  absl::Status Record(Stream stream, Event event) override;
  absl::Status Wait(Stream stream, Event event) override;
  absl::StatusOr<bool> Query(Event event) override;
  absl::Status Synchronize(Event event) override;
  absl::StatusOr<Micros> Elapsed(Event from, Event to) override;
  absl::Status Copy(Stream stream, void* to, const void* from, Bytes bytes) override;
  absl::Status Fill(Stream stream, void* to, int byte, Bytes bytes) override;
  absl::Status Write(Stream stream, void* to, const std::array<char, 64>& data,
                     Bytes bytes) override;
  absl::Status BeginCapture(Stream stream) override;
  absl::StatusOr<CapturedGraph> EndCapture(Stream stream) override;
  void Discard(CapturedGraph graph) override;
  absl::StatusOr<ExecutableGraph> Instantiate(CapturedGraph graph) override;
  absl::Status LaunchGraph(Stream stream, ExecutableGraph graph) override;
  void DestroyGraph(ExecutableGraph graph) override;

 private:
  Bytes Free() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return options_.memory - options_.own - options_.foreign - taken_;
  }
  bool Fails(Fault fault) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Alive() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return dead_; }
  void DieLocked(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // OK where the calling thread may make a call that must not come between Begin- and EndCapture;
  // else the capture is spoiled, as with CUDA.
  absl::Status OutsideCapture(const char* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status EnqueueLocked(DoubleStream* stream, std::function<void()> work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsPinned(const void* address) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run(DoubleStream* stream);  // a thread's life

  const DoubleOptions options_;
  device::cuda::Properties properties_;

  mutable Mutex mu_;
  CondVar changed_;
  // Nothing more is begun; and once no work runs, every call says so.
  absl::Status dying_ ABSL_GUARDED_BY(mu_), dead_ ABSL_GUARDED_BY(mu_);
  int running_ ABSL_GUARDED_BY(mu_) = 0;                           // pieces of work
  std::array<int64_t, kFaults> countdown_ ABSL_GUARDED_BY(mu_){};  // 0: never
  Calls calls_ ABSL_GUARDED_BY(mu_);
  Bytes mapped_ ABSL_GUARDED_BY(mu_), taken_ ABSL_GUARDED_BY(mu_);
  std::map<const char*, Bytes> reserved_ ABSL_GUARDED_BY(mu_), pinned_ ABSL_GUARDED_BY(mu_);
  std::map<const char*, Bytes> granules_ ABSL_GUARDED_BY(mu_);  // mapped, one by one
  int streams_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<std::thread::id, DoubleStream*> capturing_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ebb::testing
