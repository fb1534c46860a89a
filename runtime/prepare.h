// Everything that is known of a job before it gets a byte: its graphs, programs, cuts, stack plans
// and resident layout. Prepare is a pure function of the spec and the device; it reads like the
// pipeline: import -> autodiff -> lower -> compile -> liveness -> cut -> plan.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "data/dataset.h"
#include "device/device.h"
#include "graph/graph.h"
#include "runtime/feed.h"
#include "runtime/host_budget.h"
#include "runtime/host_buffer.h"
#include "runtime/job.h"
#include "runtime/ladder.h"
#include "runtime/micro_batches.h"
#include "runtime/resident_layout.h"
#include "runtime/step_program.h"
#include "runtime/steps.h"

namespace ebb::runtime {

// Batches staged ahead of the step that reads them.
inline constexpr int kSlots = 3;

// Rooms for metrics that are made with a job: two sub-models in flight may be of three steps.
inline constexpr int kMetricRooms = 3;

struct PreparedJob {
  JobSpec spec;
  std::vector<std::string> warnings;
  // Initial values of parameters and buffers; none for kSizes and on a device that does not
  // compute.
  graph::TensorMap weights;
  std::array<data::BatchSource, 2> sources;
  std::shared_ptr<Feed> feed;  // of training batches; null where they come from sources[0]
  ResidentLayout resident;
  // The levels of the memory ladder that have been made, the resident one first, and the one in
  // use. Changed by the engine's thread only.
  Ladder ladder;
  size_t level = 0;
  LadderDepth depth = LadderDepth::kResident;  // how much of it has been made
  // One staged batch of either kind. Staged batches lie in the pool where that is host memory, else
  // in the host's, from which a step copies its own over the bus.
  Bytes slot_bytes;
  bool stages_in_pool = true;
  // Made by AllocateHost(): the slots on the host; null where there are none.
  std::unique_ptr<HostBuffer> host_slots;
  // An image of the residents: where streamed state lives, and all of it while a job changes its
  // level, starts and ends. Pages come as they are touched. Null until it is needed.
  std::shared_ptr<HostBuffer> host_image;
  // Of a job that predicts: its outputs, all rows; their room is made by AllocateHost().
  graph::TensorMap predictions;
  // Where the best is kept: the state at the best evaluation so far; its room is made by
  // AllocateHost().
  std::unique_ptr<HostBuffer> best;
  // What steps leave their metrics in on the host, of those that are not in use: one for each step
  // whose launches have begun and are not complete, more than these only if that many are in
  // flight.
  std::vector<std::unique_ptr<HostBuffer>> metric_rooms;
  std::array<std::vector<Bytes>, 2> slot_offsets;  // of each binding, then of "ebb.valid"
  StepSequence::Shape steps;
  // What it takes of the host's memory, where that is counted: staged batches, and the result.
  std::shared_ptr<HostBudget::Share> host_share;
  // Where it is too large and leaves the number of micro-batches open: why none helps.
  MicroBatchChoice micro_batches;
  std::optional<Micros> predicted_step;  // alone, where the engine knows (runtime/predict.h)
  // Of the level in use.
  const MemoryPlan& plan() const { return *ladder[level]; }
  const StepPrograms& programs() const { return plan().programs; }
  Bytes DeviceBytes() const { return plan().placement.device_bytes(); }
  Bytes Peak() const { return plan().Peak(); }  // the larger of the two stack plans'
  bool IsPlanned() const { return plan().IsPlanned(); }
  LadderBase Base() const { return {spec.ladder, ladder[0], resident}; }
  // Of the pool: room for one batch that crosses the bus ahead of its step. 0: it need not, or the
  // spec says no.
  Bytes AheadBytes() const {
    return stages_in_pool || !spec.ladder.prefetch ? Bytes(0) : slot_bytes;
  }
  // Is there room for that when the job has all of `pool`?
  bool CopiesAheadAlone(Bytes pool, Bytes granule) const {
    const Bytes region = DeviceBytes() + StagingInPool() + AheadBytes();
    return AheadBytes() > Bytes(0) && AlignUp(region, granule) + AlignUp(Peak(), granule) <= pool;
  }
  Bytes StagingInPool() const { return stages_in_pool ? slot_bytes * kSlots : Bytes(0); }
  // Of the host's: its parameters, buffers and slots, when it has succeeded.
  Bytes ResultBytes(const DeviceSpec& device) const {
    if (spec.predict) return device.computes ? PredictionBytes() : Bytes(0);
    const int states = spec.keep == Keep::kBestAndLast ? 2 : 1;
    return device.computes ? resident.state_end * states : Bytes(0);
  }
  Bytes PredictionBytes() const;  // of all rows
  // Of the host's: what host_image may take. It is a reservation of addresses where nothing is
  // computed, and then only what is streamed would be there.
  Bytes ImageBytes(const DeviceSpec& device) const {
    if (!device.computes) return plan().placement.host_bytes();
    return host_image == nullptr ? Bytes(0) : resident.bytes;
  }
  // Is its state to have an image on the host before it starts? For its levels, and for its first
  // values and its result on their way over a bus.
  bool NeedsImage(const DeviceSpec& device) const {
    return !device.computes || ladder.size() > 1 || !device.host_memory;
  }
  Bytes MetricBytes() const;  // of a step of either kind
  Bytes StagingOnHost() const { return stages_in_pool ? Bytes(0) : slot_bytes * kSlots; }
  Bytes FeedOnHost() const { return feed == nullptr ? Bytes(0) : feed->HostBytes(); }
  // Of the host's while it runs: staged batches there and fed ones, its result, and scores that it
  // collects.
  Bytes HostBytes(const DeviceSpec& device) const;
};

// What a job is prepared for: to run, or only to learn what it needs, which draws no weights and
// does without data.
enum class Purpose { kRun, kSizes };

struct PrepareOptions {
  Bytes quantum;
  // Of the pool; 0: no limit. A step that needs more by its live bytes alone is neither compiled
  // nor planned (its program is null): Peak() is then those bytes, a lower bound.
  Bytes memory;
  Purpose purpose = Purpose::kRun;
};

// On a device that does not compute, weights and data may be missing: values do not exist there.
absl::StatusOr<std::unique_ptr<PreparedJob>> Prepare(JobSpec spec, const device::Device& device,
                                                     const PrepareOptions& options);

}  // namespace ebb::runtime
