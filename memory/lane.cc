#include "memory/lane.h"

#include <algorithm>

#include "base/check.h"

namespace ebb::memory {
namespace {

size_t Index(End end) { return static_cast<size_t>(end); }

}  // namespace

LaneState::LaneState(Bytes size) : size_(size) { EBB_CHECK(size >= Bytes(0)); }

bool LaneState::Fits(End end, Bytes extent) const {
  return extent + stacks_[Index(Other(end))].held <= size_;
}

std::optional<LaunchSeq> LaneState::Enqueue(End end, LaunchSeq seq, const Claim& claim) {
  Stack& stack = stacks_[Index(end)];
  EBB_CHECK(claim.held_after >= Bytes(0) && claim.held_after <= claim.extent);
  EBB_CHECK(stack.held <= claim.extent && claim.extent <= size_);
  EBB_CHECK(stack.outstanding.empty() || stack.outstanding.back().seq < seq);

  if (claim.extent > stack.held) {
    stack.blocks.push_back({claim.job, claim.sub_model, stack.held, claim.extent - stack.held});
  }
  stack.held = claim.held_after;
  while (!stack.blocks.empty() && stack.blocks.back().offset >= stack.held) {
    stack.blocks.pop_back();
  }
  if (!stack.blocks.empty()) {
    Block& top = stack.blocks.back();
    top.bytes = std::min(top.bytes, stack.held - top.offset);
  }
  stack.outstanding.push_back({seq, claim.extent});

  // A stream is in order: the newest launch that conflicts stands for all before it.
  const std::deque<Launch>& others = stacks_[Index(Other(end))].outstanding;
  for (auto other = others.rbegin(); other != others.rend(); ++other) {
    if (other->extent + claim.extent > size_) return other->seq;
  }
  return std::nullopt;
}

void LaneState::Complete(End end, LaunchSeq seq) {
  std::deque<Launch>& outstanding = stacks_[Index(end)].outstanding;
  while (!outstanding.empty() && outstanding.front().seq <= seq) outstanding.pop_front();
}

void LaneState::Drop(End end) {
  Stack& stack = stacks_[Index(end)];
  stack.blocks.clear();
  stack.held = Bytes(0);
}

Bytes LaneState::Held(End end) const { return stacks_[Index(end)].held; }

Bytes LaneState::Reach(End end) const {
  const Stack& stack = stacks_[Index(end)];
  Bytes reach = stack.held;
  for (const Launch& launch : stack.outstanding) reach = std::max(reach, launch.extent);
  return reach;
}

const std::vector<Block>& LaneState::Blocks(End end) const { return stacks_[Index(end)].blocks; }

int LaneState::Outstanding(End end) const {
  return static_cast<int>(stacks_[Index(end)].outstanding.size());
}

bool LaneState::Drained() const {
  return std::all_of(stacks_.begin(), stacks_.end(), [](const Stack& stack) {
    return stack.held == Bytes(0) && stack.outstanding.empty();
  });
}

LaneState::Totals LaneState::Sum() const {
  Totals totals;
  totals.held[0] = Held(End::kBottom);
  totals.held[1] = Held(End::kTop);
  // Between the held parts the two waiting zones start at opposite ends, so their union is their
  // sum until they meet.
  const Bytes between = size_ - totals.held[0] - totals.held[1];
  const Bytes zones = Reach(End::kBottom) - totals.held[0] + Reach(End::kTop) - totals.held[1];
  totals.waiting = std::min(between, zones);
  totals.free = between - totals.waiting;
  return totals;
}

void LaneState::CheckInvariants() const {
  for (const Stack& stack : stacks_) {
    Bytes level;
    for (const Block& block : stack.blocks) {
      EBB_CHECK(block.offset == level && block.bytes > Bytes(0));
      level += block.bytes;
    }
    EBB_CHECK(level == stack.held);
    for (size_t i = 0; i < stack.outstanding.size(); ++i) {
      EBB_CHECK(stack.outstanding[i].extent <= size_);
      EBB_CHECK(i == 0 || stack.outstanding[i - 1].seq < stack.outstanding[i].seq);
    }
  }
  const Totals totals = Sum();
  EBB_CHECK(totals.waiting >= Bytes(0) && totals.free >= Bytes(0));
  EBB_CHECK(totals.held[0] + totals.held[1] + totals.waiting + totals.free == size_);
}

}  // namespace ebb::memory
