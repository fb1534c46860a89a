// One interface over cpu, cuda, sim and ref: memory, streams, events, compiled programs. A device
// knows nothing of jobs and policies. Calls are thread-safe unless said otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/device_spec.h"
#include "base/ids.h"
#include "base/units.h"
#include "graph/graph.h"
#include "memory/granules.h"

namespace ebb::device {

using StreamId = StrongId<struct StreamTag>;         // never reused
using EventId = StrongId<struct EventTag, int64_t>;  // never reused

// The kernels of one graph on one device. Which kernels depends on the graph alone (and the
// device's fixed configuration), never on memory, time or neighbours. Immutable after Compile.
class Program {
 public:
  virtual ~Program() = default;
  // Scratch memory that a node needs while it runs, from the stack plan. 0 for most.
  virtual Bytes Workspace(NodeId node) const = 0;
};

// Where a program finds its bytes. Both tables are indexed by id; entries that the launched nodes
// do not touch may be null. Kept alive by the caller until the launch is complete.
struct Bindings {
  std::vector<void*> values;      // by ValueId
  std::vector<void*> workspaces;  // by NodeId
};

struct LaunchArgs {
  const Program* program = nullptr;
  const Bindings* bindings = nullptr;
  int first = 0;  // node indices, inclusive
  int last = 0;
};

struct EventState {
  bool complete = false;
  // First failure of the work before the event on its stream since the event before it.
  absl::Status status;
  // When the work between the previous event and this one began and ended, on the device's clock;
  // meaningful when complete.
  Micros start;
  Micros end;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceSpec& spec() const = 0;
  // Not OK once nothing of this process can use the device again. From then on every event is
  // complete and has this status, and what device memory holds is lost: only a new process helps.
  virtual absl::Status Health() const { return absl::OkStatus(); }
  // Memory of the device that no pool can have, as its driver counts it now: context, modules and
  // plans, and what other processes hold. Zero where the pool is the host's memory.
  virtual Bytes Outside() const { return Bytes(0); }
  virtual memory::GranuleSource& granules() = 0;

  // Memory of the host that copies to and from the device do not wait for: page-locked where that
  // makes a difference; zero at first. Addresses alone on a device that computes nothing.
  // ResourceExhausted when there is none. Takes its time: not while steps run.
  virtual absl::StatusOr<char*> AllocateHost(Bytes bytes) = 0;
  virtual void FreeHost(char* memory, Bytes bytes) = 0;  // as it was allocated

  // Rewrites a graph into the form that the device runs best (physical layouts, fusions). Same
  // values under the same names for all inputs, parameters, states and metrics, in plain layout.
  virtual absl::StatusOr<graph::Graph> Lower(graph::Graph graph) const { return graph; }
  // Unimplemented names the node and op without a kernel. `graph` must outlive the program.
  virtual absl::StatusOr<std::unique_ptr<Program>> Compile(const graph::Graph& graph) const = 0;

  virtual StreamId CreateStream() = 0;
  // Waits for the stream's work and ends it.
  virtual void DestroyStream(StreamId stream) = 0;
  // The following enqueue work in order and return at once. A failure of a kernel is kept for the
  // next recorded event; it does not stop the stream.
  virtual void Launch(StreamId stream, const LaunchArgs& args) = 0;
  virtual void Copy(StreamId stream, void* to, const void* from, Bytes bytes) = 0;
  // Copies a few bytes (<= 64) that the caller need not keep.
  virtual void Write(StreamId stream, void* to, absl::Span<const char> bytes) = 0;
  virtual EventId Record(StreamId stream) = 0;
  // Work enqueued on `stream` after this starts when the recorded event is complete.
  virtual void Wait(StreamId stream, EventId event) = 0;
  virtual EventState Query(EventId event) const = 0;
  // Forgets an event that has been recorded; pending waits keep their meaning.
  virtual void Release(EventId event) = 0;
  // Blocks until an event completes after the last return of this call, Wake() is called, or
  // `timeout` has passed. For one thread, the engine's.
  virtual void AwaitProgress(absl::Duration timeout) = 0;
  virtual void Wake() = 0;
  // Blocks until the stream has no work left.
  virtual void Synchronize(StreamId stream) = 0;
  // The device's own clock, in which events are stamped: steady on real devices, virtual on sim.
  virtual Micros Now() const = 0;
};

struct DeviceOptions {
  int threads_per_stream = 0;  // 0: the device's default
};

// "cpu", "ref", "cuda", "cuda:1", "sim:PROFILE" (device/sim/sim_device.h). NotFound lists what
// there is; Unavailable says why a known one cannot be had here.
absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const std::string& name,
                                                   const DeviceOptions& options);

}  // namespace ebb::device
