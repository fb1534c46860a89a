#include "device/check/race_check.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"
#include "base/status.h"
#include "device/check/program_accesses.h"
#include "device/check/race_detector.h"
#include "device/forwarding_device.h"

namespace ebb::device {
namespace {

using Words = std::shared_ptr<const std::string>;

class CheckedProgram final : public Program {
 public:
  CheckedProgram(std::unique_ptr<Program> inner, const graph::Graph& graph)
      : inner_(std::move(inner)), accesses_(ProgramAccesses::Of(graph, *inner_)) {}
  Bytes Workspace(NodeId node) const override { return inner_->Workspace(node); }
  const Program* inner() const { return inner_.get(); }
  const ProgramAccesses& accesses() const { return *accesses_; }

 private:
  const std::unique_ptr<Program> inner_;
  const std::shared_ptr<const ProgramAccesses> accesses_;
};

// What poison is copied from. Never freed: the inner device may copy to its own end.
const std::vector<char>& Pattern() {
  static const auto& pattern = *new std::vector<char>(1 << 20, '\xff');
  return pattern;
}

class RaceCheckDevice final : public ForwardingDevice, private memory::GranuleSource {
 public:
  RaceCheckDevice(std::unique_ptr<Device> device, RaceCheckOptions options)
      : ForwardingDevice(std::move(device)), options_(std::move(options)) {
    EBB_CHECK(options_.on_fault != nullptr);
  }

  memory::GranuleSource& granules() override { return *this; }
  absl::StatusOr<std::unique_ptr<Program>> Compile(const graph::Graph& graph) const override {
    EBB_ASSIGN_OR_RETURN(std::unique_ptr<Program> program, inner().Compile(graph));
    return std::make_unique<CheckedProgram>(std::move(program), graph);
  }

  // The lock is held while the inner device enqueues, so that both see one order. It does no work.
  void Launch(StreamId stream, const LaunchArgs& args) override {
    const auto* program = static_cast<const CheckedProgram*>(args.program);
    const ProgramAccesses& accesses = program->accesses();
    LaunchArgs inner_args = args;
    inner_args.program = program->inner();
    Reporter reporter(this);
    MutexLock lock(&mu_);
    Touch(stream, accesses, args);
    inner().Launch(stream, inner_args);
    if (options_.released == RaceCheckOptions::Released::kKeep) return;
    for (const AddressRange& dead : accesses.Dead(*args.bindings, args.first, args.last)) {
      Poison(stream, dead);
    }
  }
  void Copy(StreamId stream, void* to, const void* from, Bytes bytes) override {
    Reporter reporter(this);
    MutexLock lock(&mu_);
    const Operation operation = detector_.clocks().Enqueue(stream);
    detector_.Touch(RangeOf(from, bytes), {operation, false, copy_reads_});
    detector_.Touch(RangeOf(to, bytes), {operation, true, copy_writes_});
    inner().Copy(stream, to, from, bytes);
  }
  void Write(StreamId stream, void* to, absl::Span<const char> bytes) override {
    Reporter reporter(this);
    MutexLock lock(&mu_);
    const Operation operation = detector_.clocks().Enqueue(stream);
    detector_.Touch(RangeOf(to, Bytes(static_cast<int64_t>(bytes.size()))),
                    {operation, true, write_});
    inner().Write(stream, to, bytes);
  }

  EventId Record(StreamId stream) override {
    MutexLock lock(&mu_);
    const EventId event = inner().Record(stream);
    detector_.clocks().Record(stream, event);
    return event;
  }
  void Wait(StreamId stream, EventId event) override {
    MutexLock lock(&mu_);
    detector_.clocks().Wait(stream, event);
    inner().Wait(stream, event);
  }
  EventState Query(EventId event) const override {
    EventState state = inner().Query(event);
    if (state.complete) {
      MutexLock lock(&mu_);
      detector_.clocks().SeenComplete(event);
    }
    return state;
  }
  void Release(EventId event) override {
    MutexLock lock(&mu_);
    detector_.clocks().Forget(event);
    inner().Release(event);
  }
  void Synchronize(StreamId stream) override {
    const Clocks::Time time = EnqueuedOn(stream);
    inner().Synchronize(stream);
    SeenComplete(time);
  }
  void DestroyStream(StreamId stream) override {
    const Clocks::Time time = EnqueuedOn(stream);
    inner().DestroyStream(stream);
    SeenComplete(time);
  }

 private:
  // Reports, at its end and without the lock, what the detector has found.
  class Reporter {
   public:
    explicit Reporter(RaceCheckDevice* device) : device_(device) {}
    ~Reporter() {
      std::string fault;
      {
        MutexLock lock(&device_->mu_);
        fault = device_->detector_.TakeFault();
      }
      if (!fault.empty()) device_->options_.on_fault(fault);
    }
    Reporter(const Reporter&) = delete;
    Reporter& operator=(const Reporter&) = delete;

   private:
    RaceCheckDevice* const device_;
  };

  // --- memory::GranuleSource
  Bytes granule() const override { return inner().granules().granule(); }
  absl::StatusOr<char*> Reserve(Bytes bytes) override {
    absl::StatusOr<char*> base = inner().granules().Reserve(bytes);
    MutexLock lock(&mu_);
    if (base.ok()) detector_.memory().Reserve(RangeOf(*base, bytes));
    return base;
  }
  void Unreserve(char* base, Bytes bytes) override {
    {
      Reporter reporter(this);
      MutexLock lock(&mu_);
      detector_.TakeAway(RangeOf(base, bytes), "unreserved");
      detector_.memory().Unreserve(RangeOf(base, bytes));
    }
    inner().granules().Unreserve(base, bytes);
  }
  absl::Status Commit(char* base, Bytes offset, Bytes bytes) override {
    absl::Status status = inner().granules().Commit(base, offset, bytes);
    MutexLock lock(&mu_);
    if (status.ok()) detector_.memory().Commit(RangeOf(base + offset.count(), bytes));
    return status;
  }
  void Decommit(char* base, Bytes offset, Bytes bytes) override {
    {
      const AddressRange range = RangeOf(base + offset.count(), bytes);
      Reporter reporter(this);
      MutexLock lock(&mu_);
      detector_.TakeAway(range, "decommitted");
      detector_.memory().Decommit(range);
    }
    inner().granules().Decommit(base, offset, bytes);
  }

  void Touch(StreamId stream, const ProgramAccesses& accesses, const LaunchArgs& args)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    RaceDetector& detector = detector_;
    const Operation operation = detector.clocks().Enqueue(stream);
    accesses.ForEach(*args.bindings, args.first, args.last,
                     [&](const AddressRange& range, bool writes, const Words& what) {
                       detector.Touch(range, {operation, writes, what});
                     });
  }
  void Poison(StreamId stream, const AddressRange& range) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    detector_.Touch(range, {detector_.clocks().Enqueue(stream), true, poisons_});
    const std::vector<char>& pattern = Pattern();
    for (uintptr_t at = range.begin; at < range.end; at += pattern.size()) {
      const auto bytes = static_cast<int64_t>(std::min<uintptr_t>(range.end - at, pattern.size()));
      inner().Copy(stream, reinterpret_cast<void*>(at), pattern.data(), Bytes(bytes));
    }
  }
  Clocks::Time EnqueuedOn(StreamId stream) {
    MutexLock lock(&mu_);
    return detector_.clocks().Now(stream);
  }
  void SeenComplete(const Clocks::Time& time) {
    MutexLock lock(&mu_);
    detector_.clocks().SeenComplete(time);
  }

  const RaceCheckOptions options_;
  const Words copy_reads_ = std::make_shared<std::string>("a copy reads");
  const Words copy_writes_ = std::make_shared<std::string>("a copy writes");
  const Words write_ = std::make_shared<std::string>("the host's bytes are written");
  const Words poisons_ = std::make_shared<std::string>("released bytes are poisoned");

  mutable Mutex mu_;
  mutable RaceDetector detector_ ABSL_GUARDED_BY(mu_);  // Query() is an observation
};

}  // namespace

std::unique_ptr<Device> CheckRaces(std::unique_ptr<Device> device, RaceCheckOptions options) {
  return std::make_unique<RaceCheckDevice>(std::move(device), std::move(options));
}

}  // namespace ebb::device
