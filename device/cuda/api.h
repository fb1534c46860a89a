// The seam between the CUDA device and the CUDA runtime: memory, streams, events, graphs. Two
// things stand behind it: the runtime itself (cuda_api.cc), and a test double that plays streams as
// threads (tests/device/cuda_double). Kernels are started through device/cuda/launch.h. Handles are
// CUDA's own types, never looked into here, so that this header needs no CUDA toolkit.
// Thread-safe, but for a stream's capture.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/units.h"

struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace ebb::device::cuda {

using Stream = CUstream_st*;
using Event = CUevent_st*;
using CapturedGraph = CUgraph_st*;
using ExecutableGraph = CUgraphExec_st*;

// What a GPU says of itself.
struct Properties {
  std::string name;       // "NVIDIA H200"
  int compute_major = 0;  // 9 of sm_90
  int compute_minor = 0;
  int multiprocessors = 0;
  int max_threads_per_multiprocessor = 0;
  Bytes memory;
  Bytes shared_per_block;  // the most that a block may ask for
  double clock_hz = 0;
  double bandwidth = 0;                 // bytes per second of its memory
  bool managed_virtual_memory = false;  // has the virtual-memory calls
};

struct MemoryInfo {
  Bytes free;
  Bytes total;
};

// Errors. A failed call is a Status: ResourceExhausted for memory, Unavailable for no GPU or
// driver, Internal for a launch that was refused. An error after which nothing of this process can
// use the GPU again (a *sticky* one: illegal address, assert, hardware fault) is DataLoss; every
// later call returns it too.
inline bool IsSticky(const absl::Status& status) {
  return status.code() == absl::StatusCode::kDataLoss;
}

class Api {
 public:
  virtual ~Api() = default;
  virtual const Properties& properties() const = 0;
  // What the calling thread launches from now on (launch.h) goes to this GPU.
  virtual absl::Status MakeCurrent() = 0;
  virtual absl::StatusOr<MemoryInfo> Memory() = 0;
  // What is in use outside the granules: what the process holds as the driver counts it (context,
  // modules, plans), and what other processes hold.
  virtual absl::StatusOr<Bytes> ForeignMemory() = 0;

  // ---- The pool: addresses without memory, memory behind them (cuMemAddressReserve, cuMemCreate,
  // cuMemMap, cuMemSetAccess). All sizes are multiples of granule().
  virtual Bytes granule() const = 0;
  virtual absl::StatusOr<char*> Reserve(Bytes bytes) = 0;
  virtual void Unreserve(char* base, Bytes bytes) = 0;
  virtual absl::Status Map(char* address, Bytes bytes) = 0;
  // Any granules that are mapped, not only those of one call of Map. Waits for work if need be.
  virtual absl::Status Unmap(char* address, Bytes bytes) = 0;
  // Page-locked host memory, zero at first.
  virtual absl::StatusOr<char*> AllocateHost(Bytes bytes) = 0;
  virtual void FreeHost(char* address) = 0;

  // ---- Streams and events. Streams do not synchronise with the legacy default stream.
  virtual absl::StatusOr<Stream> CreateStream() = 0;
  virtual void DestroyStream(Stream stream) = 0;  // its work must be complete
  virtual absl::Status Synchronize(Stream stream) = 0;
  virtual absl::StatusOr<Event> CreateEvent() = 0;  // with timing
  virtual void DestroyEvent(Event event) = 0;
  virtual absl::Status Record(Stream stream, Event event) = 0;
  virtual absl::Status Wait(Stream stream, Event event) = 0;
  // Complete or not; a sticky error of any work shows here first.
  virtual absl::StatusOr<bool> Query(Event event) = 0;
  // Blocks until the event is complete.
  virtual absl::Status Synchronize(Event event) = 0;
  // Between two complete events; negative where `to` came first.
  virtual absl::StatusOr<Micros> Elapsed(Event from, Event to) = 0;

  // ---- Copies and fills. A copy of host memory that is not page-locked may block.
  virtual absl::Status Copy(Stream stream, void* to, const void* from, Bytes bytes) = 0;
  virtual absl::Status Fill(Stream stream, void* to, int byte, Bytes bytes) = 0;
  // Up to 64 bytes that travel with the call.
  virtual absl::Status Write(Stream stream, void* to, const std::array<char, 64>& data,
                             Bytes bytes) = 0;

  // ---- Graphs. Between Begin and End what is enqueued on the stream is kept, not run; only the
  // calling thread is affected.
  virtual absl::Status BeginCapture(Stream stream) = 0;
  virtual absl::StatusOr<CapturedGraph> EndCapture(Stream stream) = 0;
  virtual void Discard(CapturedGraph graph) = 0;
  virtual absl::StatusOr<ExecutableGraph> Instantiate(CapturedGraph graph) = 0;  // takes `graph`
  virtual absl::Status LaunchGraph(Stream stream, ExecutableGraph graph) = 0;
  virtual void DestroyGraph(ExecutableGraph graph) = 0;  // its launches must be complete
};

}  // namespace ebb::device::cuda
