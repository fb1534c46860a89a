// Virtual time: streams of kernels, copies, records and waits, and what they take when they share
// the device. Pure and deterministic: no clock, no thread, no lock. Times are in microseconds.
// Thread rule: one owner at a time.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <variant>

#include "absl/types/span.h"
#include "device/device.h"
#include "device/sim/profile.h"
#include "device/sim/roofline.h"

namespace ebb::device {

// What kernels that run at once compete for. All running kernels slow down by one factor:
//   kSlots    max(1, sum of slot shares, sum of bandwidth shares): conservative, full grids take
//             turns
//   kVector   max(1, sum of flop shares, sum of bandwidth shares): optimistic, any mix fills up
// times 1 + interference x (running kernels - 1).
enum class OverlapModel { kSlots, kVector };
absl::string_view Name(OverlapModel model);

enum class BusDirection { kToDevice, kToHost };
enum class StepStart { kNo, kYes };  // does a launch begin a step of its program?

class Timeline {
 public:
  using Event = std::shared_ptr<EventState>;

  Timeline(const SimProfile& profile, OverlapModel overlap);
  double now() const { return now_; }
  static Micros Stamp(double time);  // rounded

  void AddStream(StreamId stream);
  void RemoveStream(StreamId stream);  // REQUIRES Idle(stream)

  // The following enqueue work at the present instant. The kernels, in order; those without time
  // do not exist. The host admits the launch and then launches them one by one, ahead of the
  // device as far as it gets. `kernels` must live until they are done.
  void Launch(StreamId stream, absl::Span<const KernelCost> kernels, StepStart step);
  void Kernel(StreamId stream, const KernelCost& kernel);  // without host work
  void Copy(StreamId stream, BusDirection direction, double micros);
  Event Record(StreamId stream);
  void Wait(StreamId stream, Event event);

  // Does what is due at the present instant; no time passes.
  void Settle();

  bool Idle(StreamId stream) const;
  int64_t records_pending() const { return records_ - completed_; }
  int64_t records_completed() const { return completed_; }

  // Settles and, if that completed no record, moves time to the next instant at which
  // anything changes. False when nothing is in motion. Call it until what is waited for is there.
  bool Advance();

 private:
  struct Kernels {
    absl::Span<const KernelCost> costs;
    size_t next = 0;
    double launched = 0;  // when the host has launched the next kernel
    double launch_us = 0;
    KernelCost own;  // what `costs` shows when it is one kernel of ours
  };
  struct BusCopy {
    BusDirection direction;
    double micros = 0;
  };
  struct RecordItem {
    Event event;
  };
  struct WaitItem {
    Event event;
  };
  using Item = std::variant<Kernels, BusCopy, RecordItem, WaitItem>;

  struct Stream {
    std::deque<Item> items;
    enum class Head { kStill, kKernel, kCopy } head = Head::kStill;  // what the first item does
    KernelCost kernel;                                               // kKernel
    double left = 0;                                                 // kKernel: microseconds alone
    double not_before = 0;  // kStill with kernels first: when the next may start
    double gap_until = 0;   // no kernel starts before
    double host_free = 0;   // when its launching thread has nothing to do
    bool worked = false;    // since the last record: did anything run, and when
    double start = 0, end = 0;
  };

  Stream& Get(StreamId stream) { return *streams_.at(stream); }
  bool Begin(Stream& stream);  // does what the first item can do now; true if anything changed
  bool BeginKernel(Stream& stream, Kernels& kernels);
  void BeginWork(Stream& stream);
  void EndWork(Stream& stream);
  void Complete(Stream& stream, EventState& event);
  double SharedRate() const;
  bool Step();  // to the next instant at which work ends or may start; false if there is none

  const SimProfile profile_;
  const OverlapModel overlap_;
  double now_ = 0;
  int64_t records_ = 0, completed_ = 0;
  std::map<StreamId, std::unique_ptr<Stream>> streams_;
  struct Engine {  // copies of one direction, one at a time
    std::deque<Stream*> queue;
    double end = 0;  // of the first
  };
  std::array<Engine, 2> engines_;
};

}  // namespace ebb::device
