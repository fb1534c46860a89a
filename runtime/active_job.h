// A job as the engine's thread sees it: its memory, its staged batches, its steps in flight. Not
// thread-safe: the engine's thread only, but for the staging slots while the loader fills them.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "device/device.h"
#include "memory/lane.h"
#include "memory/pool.h"
#include "runtime/board.h"
#include "runtime/host_buffer.h"
#include "runtime/judge.h"
#include "runtime/metric_sums.h"
#include "runtime/prepare.h"
#include "runtime/rates.h"
#include "runtime/stager.h"
#include "runtime/steps.h"

namespace ebb::runtime {

// A step from the moment its batch is being staged until its last launch is complete.
struct StepRun {
  StepItem item;
  int slot = -1;
  bool staged = false;
  int64_t valid = 0;
  bool ahead = false;                   // its batch is in ActiveJob::ahead, or on its way there
  std::unique_ptr<HostBuffer> metrics;  // host copy of the program's, written by the device
};

struct ActiveJob {
  JobId id;
  std::unique_ptr<PreparedJob> prepared;
  StepSequence sequence;
  ScheduleSpec schedule;  // live: an update or an evaluation may change it
  // The end that `schedule` goes by. Not where its feed ends: that becomes known at any time.
  int64_t scheduled_steps = 0;
  Judge judge;
  std::string stop_note, best_note;  // what evaluations have decided, in words
  double weight = 1;
  int priority = 0;
  int max_in_flight = 0;  // 0: the engine's

  // The slots that lie in the pool, resident state, then room for a batch that is copied ahead;
  // null until admitted.
  std::unique_ptr<memory::Region> region;
  // Where the pool is not host memory: room for the next step's batch, while memory does not bind.
  struct AheadRoom {
    bool granted = false;
    bool taken = false;      // until the step that it is for has copied it into the stack
    device::EventId landed;  // valid until it is known to be there
  } ahead;
  LaneId lane;
  std::array<std::shared_ptr<EpochCache>, 2> caches = {std::make_shared<EpochCache>(),
                                                       std::make_shared<EpochCache>()};
  // Address tables by (program, end), for the lane they were made for.
  struct BoundTo {
    char* base = nullptr;
    Bytes size;
    std::unique_ptr<device::Bindings> bindings;
  };
  std::array<std::array<BoundTo, 2>, 2> bound;

  std::deque<std::unique_ptr<StepRun>> staged;   // in order; being filled or full
  std::unique_ptr<StepRun> enqueuing;            // its launches are being enqueued
  std::deque<std::unique_ptr<StepRun>> running;  // all enqueued, not complete
  std::array<bool, kSlots> slot_busy = {};
  int fills_pending = 0;  // slots that the loader is writing
  int outstanding = 0;    // launches and copies not complete
  bool uploaded = false;
  bool image_is_fresh = false;    // the host image holds the state as it is now
  bool image_on_its_way = false;  // the device copies it: no step may start
  bool ready = false;             // Ready() was called and the step has not started
  bool paused = false;
  bool draining = false;  // its sequence is over, or it has been ended: starts no step
  bool snapshotting = false;
  // For which batch of its client's it waits, on the engine's clock from when; -1: for none.
  struct Hunger {
    int64_t batch = -1;
    Micros since;
  } hunger;

  MetricSums step_sums, epoch_sums, eval_sums;
  absl::Time started = absl::InfinitePast();
  // On the device's clock.
  std::optional<Micros> first_start;  // of its first launch
  Micros last_step_end;
  int64_t steps_done = 0;                   // optimizer steps that are complete
  DecayedSum busy;                          // microseconds of execution, for `share`
  Micros device_time;                       // of all its launches
  std::optional<Micros> device_time_limit;  // it has not reached yet
  StepRate rate;

  explicit ActiveJob(std::unique_ptr<PreparedJob> p);

  Bytes ResidentBytes() const { return prepared->DeviceBytes(); }
  Bytes StagingBytes() const { return prepared->StagingInPool(); }
  Bytes AheadBytes() const { return ahead.granted ? prepared->AheadBytes() : Bytes(0); }
  Bytes RegionBytes() const { return ResidentBytes() + StagingBytes() + AheadBytes(); }
  // Where a field of a staged batch lies: `offset` bytes into its slot.
  char* Staged(int slot, Bytes offset) const;
  char* Ahead(Bytes offset) const;  // the same of what is copied ahead. REQUIRES ahead.granted
  // Where the byte of the residents' image lies now, in the region or on the host.
  char* AtImage(Bytes offset) const;
  char* Resident(absl::string_view name, int program) const;
  std::vector<scheduler::StepProfile> Profiles() const;
  // Changes the level of the memory ladder. REQUIRES no step in flight.
  void Adopt(size_t level);
  // The address table for a step of `program` on `end` of the lane [base, base+size). Made on the
  // first call for a lane, which is when the job is put there (BindAll): steps take nothing large
  // from the heap.
  const device::Bindings& Bind(int program, memory::End end, char* base, Bytes size);
  void BindAll(char* base, Bytes size);
};

}  // namespace ebb::runtime
