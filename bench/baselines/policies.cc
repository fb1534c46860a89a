#include "bench/baselines/policies.h"

#include <algorithm>

#include "base/check.h"

namespace ebb::bench {
namespace {

bool HasRoom(const Simulation& sim, int job) { return sim.in_flight(job) < Simulation::kAhead; }

// What the others claim, with `job`'s next sub-model beside them, fits.
bool BytesAreThere(const Simulation& sim, int job) {
  Bytes claimed = std::max(sim.claimed(job), sim.next(job).needed);
  for (int j = 0; j < sim.jobs(); ++j) {
    if (j != job) claimed += sim.claimed(j);
  }
  return claimed <= sim.memory();
}

// Once `candidate` has done its next sub-model: can all be finished one after the other?
bool Safe(const Simulation& sim, int candidate) {
  struct Debt {
    Bytes held, need;
  };
  std::vector<Debt> debts;
  Bytes free = sim.memory();
  for (int j = 0; j < sim.jobs(); ++j) {
    Debt debt{sim.held(j), sim.in_step(j) ? sim.next(j).need : Bytes(0)};
    if (j == candidate) {
      const auto after = static_cast<size_t>(sim.next_index(j)) + 1;
      const auto& subs = sim.work(j).sub_models;
      debt = {sim.next(j).held, after < subs.size() ? subs[after].need : Bytes(0)};
    }
    free -= debt.held;
    if (debt.need > Bytes(0)) debts.push_back(debt);
  }
  // The one that lacks least can be finished first, if any can.
  std::sort(debts.begin(), debts.end(),
            [](const Debt& a, const Debt& b) { return a.need - a.held < b.need - b.held; });
  for (const Debt& debt : debts) {
    if (debt.need - debt.held > free) return false;
    free += debt.held;
  }
  return true;
}

}  // namespace

void TimeSharing::Decide(Simulation& sim) {
  for (;;) {
    std::vector<Simulation::Event> after;
    if (turn_ < 0 || !sim.in_step(turn_)) {  // the next step's turn
      const int last = turn_;
      const int next =
          order_ == Order::kInTurn ? (last + 1) % sim.jobs() : sim.LeastServedFirst().front();
      if (!HasRoom(sim, next)) return;
      if (gap_ > 0 && last >= 0 && sim.in_flight(last) > 0) return;
      if (gap_ > 0) sim.Pause(next, gap_ * sim.work(next).alone_micros);
      if (last >= 0 && last != next) after.push_back(sim.newest(last));
      turn_ = next;
    } else if (!HasRoom(sim, turn_)) {
      return;
    }
    sim.Launch(turn_, after);
  }
}

void Spatial::Decide(Simulation& sim) {
  for (int j = 0; j < sim.jobs(); ++j) {
    while (HasRoom(sim, j)) sim.Launch(j);
  }
}

void Greedy::Decide(Simulation& sim) {
  for (bool launched = true; launched;) {
    launched = false;
    for (const int j : sim.LeastServedFirst()) {
      if (!HasRoom(sim, j) || !BytesAreThere(sim, j)) continue;
      sim.Launch(j);
      launched = true;
      break;
    }
  }
}

void Greedy::BreakDeadlock(Simulation& sim) { EBB_CHECK(DropLeastProgressed(sim)); }

bool DropLeastProgressed(Simulation& sim) {
  int least = -1;
  double least_part = 2;
  for (int j = 0; j < sim.jobs(); ++j) {
    const double part =
        static_cast<double>(sim.next_index(j)) / static_cast<double>(sim.work(j).sub_models.size());
    if (!sim.in_step(j) || part >= least_part) continue;
    least = j;
    least_part = part;
  }
  if (least < 0) return false;
  sim.DropStep(least);
  return true;
}

void Banker::Decide(Simulation& sim) {
  for (bool launched = true; launched;) {
    launched = false;
    for (const int j : sim.LeastServedFirst()) {
      if (!HasRoom(sim, j) || !BytesAreThere(sim, j) || !Safe(sim, j)) continue;
      sim.Launch(j);
      launched = true;
      break;
    }
  }
}

TickTock::TickTock(int jobs) {
  EBB_CHECK(jobs >= 2);
  for (int j = 1; j < jobs; ++j) waiting_.push_back(j);
}

bool TickTock::Done(const Simulation& sim) const {
  const bool forward_done =
      fore_begun_ && sim.in_flight(fore_) == 0 && (!sim.in_step(fore_) || !sim.next(fore_).forward);
  const bool backward_done =
      back_ < 0 || (back_begun_ && sim.in_flight(back_) == 0 && !sim.in_step(back_));
  return forward_done && backward_done;
}

void TickTock::Decide(Simulation& sim) {
  if (Done(sim)) {
    if (back_ >= 0) waiting_.push_back(back_);
    back_ = fore_;
    fore_ = waiting_.front();
    waiting_.pop_front();
    back_begun_ = fore_begun_ = false;
  }
  Bytes reserved;
  if (back_ >= 0) {
    while (HasRoom(sim, back_) && (!back_begun_ || sim.in_step(back_))) {
      sim.Launch(back_);
      back_begun_ = true;
    }
    reserved = std::max(sim.claimed(back_), sim.in_step(back_) ? sim.next(back_).need : Bytes(0));
  }
  while (HasRoom(sim, fore_) && (!fore_begun_ || (sim.in_step(fore_) && sim.next(fore_).forward))) {
    if (std::max(sim.claimed(fore_), sim.next(fore_).needed) + reserved > sim.memory()) break;
    sim.Launch(fore_);
    fore_begun_ = true;
  }
}

}  // namespace ebb::bench
