// The state of one lane: two stacks in one region, one from each end, the blocks that sub-models
// claimed on them, and the launches not yet known to be complete. Pure bookkeeping: no clock,
// thread or device. Thread rule: one owner thread.
//
// A block is the range of stack levels that a sub-model was the first to claim. It is released when
// its last consumer has been enqueued; until that launch is complete the bytes are "waiting":
// another launch may claim them if it waits for that launch's event (LaneState::Claim says which).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/units.h"

namespace ebb::memory {

enum class End : uint8_t { kBottom, kTop };
constexpr End Other(End end) { return end == End::kBottom ? End::kTop : End::kBottom; }

using LaunchSeq = StrongId<struct LaunchSeqTag, int64_t>;  // grows by one a launch, never reused

struct Block {
  JobId job;
  int sub_model = 0;
  Bytes offset;  // of its lowest level above the stack's own end
  Bytes bytes;
};

// What a launch claims: the extent while it runs and the extent held when it is over.
struct Claim {
  JobId job;
  int sub_model = 0;
  Bytes extent;      // U
  Bytes held_after;  // H <= U; 0 after a step's last sub-model
};

class LaneState {
 public:
  explicit LaneState(Bytes size);
  Bytes size() const { return size_; }

  // True if a launch of this extent stays clear of what the step on the other end holds.
  bool Fits(End end, Bytes extent) const;
  // Enqueues a launch on `end`. Returns the newest launch on the other end, not known to be
  // complete, whose extent overlaps this one's addresses: the launch must wait for it on the
  // stream. REQUIRES Fits(end, claim.extent) (the scheduler's test grants no other;
  // CheckInvariants() would fail otherwise), and held_after <= extent, Held(end) <= extent: a
  // step's levels never jump.
  std::optional<LaunchSeq> Enqueue(End end, LaunchSeq seq, const Claim& claim);
  // The launch and all before it on its end are complete.
  void Complete(End end, LaunchSeq seq);
  // The rest of the step on `end` is dropped (cancel, failure): what it holds is passed on like any
  // other memory, behind its last launch.
  void Drop(End end);

  Bytes Held(End end) const;   // claimed by the step on this end after its newest launch
  Bytes Reach(End end) const;  // the largest extent of a launch not known to be complete, or held
  const std::vector<Block>& Blocks(End end) const;  // from the end inwards; sum = Held(end)
  int Outstanding(End end) const;                   // launches on this end not known to be complete
  bool Drained() const;                             // nothing held and no launch outstanding

  struct Totals {
    Bytes held[2];  // by end
    Bytes waiting;  // released but behind an event, counted once, not claimed by the other end
    Bytes free;     // the rest: held + waiting + free == size
  };
  Totals Sum() const;
  void CheckInvariants() const;

 private:
  struct Launch {
    LaunchSeq seq;
    Bytes extent;
  };
  struct Stack {
    std::vector<Block> blocks;
    Bytes held;
    std::deque<Launch> outstanding;  // in order
  };
  Bytes size_;
  std::array<Stack, 2> stacks_;
};

}  // namespace ebb::memory
