#include "device/sim/sim_device.h"

#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/status.h"
#include "device/host/host_memory.h"
#include "device/sim/roofline.h"
#include "graph/op.h"

namespace ebb::device {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class SimProgram final : public Program {
 public:
  std::vector<KernelCost> kernels;  // by node
  std::vector<Bytes> workspaces;
  Bytes Workspace(NodeId node) const override { return workspaces[node.index()]; }
};

DeviceSpec SpecOf(const SimProfile& profile, OverlapModel overlap, const Device* like) {
  return {.kind = "sim",
          .name = profile.name,
          .memory = profile.memory(),
          .granule = profile.granule(),
          .alignment = Bytes(static_cast<int64_t>(profile.alignment_bytes)),
          .parallelism = static_cast<int>(profile.steps_at_once),
          .peak_flops = profile.peak_tflops * 1e12,
          .peak_bandwidth = profile.bandwidth_gbs * 1e9,
          .bus_bandwidth = profile.bus_gbs * 1e9,
          .computes = false,
          .host_memory = like != nullptr && like->spec().host_memory,
          .profile = profile.key,
          .overlap_model = std::string(Name(overlap)),
          .constants_sha256 = profile.sha256};
}

}  // namespace

SimDevice::SimDevice(SimProfile profile, OverlapModel overlap, std::unique_ptr<const Device> like)
    : profile_(std::move(profile)),
      like_(std::move(like)),
      spec_(SpecOf(profile_, overlap, like_.get())),
      granules_(profile_.memory(), profile_.granule()),
      hold_at_(kNever),
      timeline_(profile_, overlap) {}

absl::StatusOr<graph::Graph> SimDevice::Lower(graph::Graph graph) const {
  return like_ != nullptr ? like_->Lower(std::move(graph)) : std::move(graph);
}

absl::StatusOr<std::unique_ptr<Program>> SimDevice::Compile(const graph::Graph& graph) const {
  auto program = std::make_unique<SimProgram>();
  std::unique_ptr<Program> real;
  if (like_ != nullptr) {
    EBB_ASSIGN_OR_RETURN(real, like_->Compile(graph));
  }
  for (const graph::Node& node : graph.nodes) {
    if (graph::FindOp(node.op->name) == nullptr) {
      return absl::UnimplementedError(absl::StrCat("node '", node.name, "': op ", node.op->name,
                                                   " has no kernel on device sim"));
    }
    program->kernels.push_back(CostAlone(profile_, graph, node));
    program->workspaces.push_back(real != nullptr ? real->Workspace(node.id)
                                                  : WorkspaceOf(profile_, graph, node));
  }
  return program;
}

void SimDevice::HoldClock() { HoldAt(Micros(0)); }

void SimDevice::ReleaseClock() {
  MutexLock lock(&mu_);
  hold_at_ = kNever;
  changed_.SignalAll();
}

void SimDevice::HoldAt(Micros at) {
  MutexLock lock(&mu_);
  hold_at_ = static_cast<double>(at.count());
  changed_.SignalAll();
}

SimDevice::Standstill SimDevice::AwaitStandstill(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mu_);
  for (;;) {
    const bool in_motion = timeline_.records_pending() > 0;
    if (waiting_ && progress_ == progress_seen_ && (Held() || !in_motion)) {
      return in_motion ? Standstill::kHeld : Standstill::kAtRest;
    }
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return Standstill::kWorking;
    still_.WaitWithTimeout(&mu_, left);
  }
}

Micros SimDevice::Now() const {
  MutexLock lock(&mu_);
  return Timeline::Stamp(timeline_.now());
}

// --- streams and what is enqueued on them --------------------------------------------------------

absl::StatusOr<char*> SimDevice::AllocateHost(Bytes bytes) {
  return AllocateHostMemory(bytes, HostBacking::kAddresses);
}

void SimDevice::FreeHost(char* memory, Bytes bytes) { FreeHostMemory(memory, bytes); }

StreamId SimDevice::CreateStream() {
  MutexLock lock(&mu_);
  const StreamId stream(next_stream_++);
  timeline_.AddStream(stream);
  return stream;
}

void SimDevice::DestroyStream(StreamId stream) {
  MutexLock lock(&mu_);
  Finish(stream);
  timeline_.RemoveStream(stream);
}

void SimDevice::Launch(StreamId stream, const LaunchArgs& args) {
  const auto& kernels = static_cast<const SimProgram*>(args.program)->kernels;
  EBB_CHECK(args.first >= 0 && args.last < static_cast<int>(kernels.size()));
  const auto first = static_cast<size_t>(args.first);
  const size_t count = static_cast<size_t>(args.last) + 1 - first;
  MutexLock lock(&mu_);
  timeline_.Launch(stream, absl::MakeConstSpan(kernels).subspan(first, count),
                   first == 0 ? StepStart::kYes : StepStart::kNo);
  changed_.SignalAll();
}

void SimDevice::Copy(StreamId stream, void* to, const void* from, Bytes bytes) {
  const bool device_to = granules_.Holds(to), device_from = granules_.Holds(from);
  MutexLock lock(&mu_);
  if (device_to && device_from) {
    timeline_.Kernel(stream, DeviceCopyCost(profile_, bytes));
  } else if (device_to || device_from) {
    timeline_.Copy(stream, device_to ? BusDirection::kToDevice : BusDirection::kToHost,
                   BusMicros(profile_, bytes));
  }
  changed_.SignalAll();
}

void SimDevice::Write(StreamId stream, void*, absl::Span<const char> bytes) {
  EBB_CHECK(bytes.size() <= 64);
  MutexLock lock(&mu_);
  timeline_.Copy(stream, BusDirection::kToDevice,
                 BusMicros(profile_, Bytes(static_cast<int64_t>(bytes.size()))));
  changed_.SignalAll();
}

// --- events --------------------------------------------------------------------------------------

EventId SimDevice::Record(StreamId stream) {
  MutexLock lock(&mu_);
  const EventId event(next_event_++);
  events_.emplace(event, timeline_.Record(stream));
  changed_.SignalAll();
  return event;
}

void SimDevice::Wait(StreamId stream, EventId event) {
  MutexLock lock(&mu_);
  const auto it = events_.find(event);
  EBB_CHECK(it != events_.end());
  timeline_.Wait(stream, it->second);
}

EventState SimDevice::Query(EventId event) const {
  MutexLock lock(&mu_);
  const auto it = events_.find(event);
  EBB_CHECK(it != events_.end());
  return *it->second;
}

void SimDevice::Release(EventId event) {
  MutexLock lock(&mu_);
  EBB_CHECK(events_.erase(event) == 1);
}

// --- time ----------------------------------------------------------------------------------------

bool SimDevice::Advance() {
  const int64_t before = timeline_.records_completed();
  const bool moved = timeline_.Advance();
  progress_ += timeline_.records_completed() - before;
  return moved;
}

void SimDevice::Settle() {
  const int64_t before = timeline_.records_completed();
  timeline_.Settle();
  progress_ += timeline_.records_completed() - before;
}

void SimDevice::Finish(StreamId stream) {
  while (!timeline_.Idle(stream)) {
    if (!Advance()) EBB_CHECK(timeline_.Idle(stream));  // nothing waits for what never comes
  }
  changed_.SignalAll();
}

void SimDevice::Synchronize(StreamId stream) {
  MutexLock lock(&mu_);
  Finish(stream);
}

void SimDevice::AwaitProgress(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mu_);
  while (progress_ == progress_seen_) {
    // Without a record nobody could tell that time has passed.
    if (!Held() && timeline_.records_pending() > 0) {
      EBB_CHECK(Advance());
      continue;
    }
    Settle();
    if (progress_ != progress_seen_) break;
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) break;
    waiting_ = true;
    still_.SignalAll();
    changed_.WaitWithTimeout(&mu_, left);
    waiting_ = false;
  }
  progress_seen_ = progress_;
}

void SimDevice::Wake() {
  MutexLock lock(&mu_);
  ++progress_;
  changed_.SignalAll();
}

// --- opening -------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<SimDevice>> MakeSim(SimProfile profile, OverlapModel overlap,
                                                   const OpenLike& open_like) {
  std::unique_ptr<const Device> like;
  if (!profile.like.empty()) {
    const std::string where = absl::StrCat(profile.key, ": like");
    if (open_like == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": a profile of a real device cannot be used here"));
    }
    auto opened = open_like(profile.like);
    if (!opened.ok()) return Annotate(opened.status(), where);
    like = *std::move(opened);
  }
  return std::make_unique<SimDevice>(std::move(profile), overlap, std::move(like));
}

absl::StatusOr<std::unique_ptr<SimDevice>> OpenSim(const std::string& name,
                                                   const DeviceOptions& options,
                                                   const OpenLike& open_like) {
  if (options.threads_per_stream > 1) {
    return absl::InvalidArgumentError(
        "a simulated device computes nothing; leave threads_per_stream at 0");
  }
  absl::string_view profile_name = name;
  OverlapModel overlap = OverlapModel::kSlots;
  if (absl::ConsumeSuffix(&profile_name, "+vector")) {
    overlap = OverlapModel::kVector;
  } else if (!absl::ConsumeSuffix(&profile_name, "+slots") && absl::StrContains(name, '+')) {
    return absl::InvalidArgumentError(
        absl::StrCat("device \"sim:", name, "\": the overlap model after + is slots or vector"));
  }
  EBB_ASSIGN_OR_RETURN(SimProfile profile, LoadSimProfile(std::string(profile_name)));
  return MakeSim(std::move(profile), overlap, open_like);
}

}  // namespace ebb::device
