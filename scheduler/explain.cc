// What the scheduler can say about itself: standings, reasons and invariants.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "scheduler/state.h"

namespace ebb::scheduler {
namespace {

End EndOf(const Lane& lane, const Job& job) {
  return lane.on(End::kBottom) == &job ? End::kBottom : End::kTop;
}

std::string RunAhead(const Job& job) {
  return absl::StrCat(job.in_flight, " of at most ", job.queue.params.max_in_flight,
                      " sub-models in flight");
}

// Why `job` on `end`, whose turn it is, is not granted; empty if it is.
std::string MemoryReason(const Lane& lane, End end, const Job& job) {
  if (lane.Leads(end)) return "";
  const Job& leader = *lane.on(Other(end));
  if (job.Extent() + leader.Need() <= lane.state.size()) return "";
  return absl::StrCat("needs ", FormatBytes(job.Extent()), " at the ",
                      end == End::kTop ? "top" : "bottom", " end; j-", leader.id.value(),
                      " leads and still needs up to ", FormatBytes(leader.Need()), " of ",
                      FormatBytes(lane.state.size()));
}

}  // namespace

Standing Scheduler::StandingOf(JobId id) const {
  const Job& job = impl_->job(id);
  const Lane& lane = impl_->lane(job.lane);
  if (job.in_step) {
    return lane.Leads(EndOf(lane, job)) ? Standing::kLeading : Standing::kFollowing;
  }
  if (!job.ready) return Standing::kIdle;
  return lane.open ? Standing::kWaiting : Standing::kPaused;
}

int64_t Scheduler::Overtaken(JobId id) const { return impl_->job(id).queue.overtaken; }
int64_t Scheduler::MostOvertaken() const { return impl_->most_overtaken; }

std::string Scheduler::Why(JobId id) const {
  const Job& job = impl_->job(id);
  const Lane& lane = impl_->lane(job.lane);
  if (!job.ready && !job.in_step) return "no step is ready";
  // A step that waits for its turn would do so with room as well.
  const Job* turn = job.in_step ? nullptr : impl_->WhoseTurn(job);
  if (!job.HasRoom() && turn == nullptr) return RunAhead(job);
  if (job.in_step) {
    const std::string reason = MemoryReason(lane, EndOf(lane, job), job);
    return reason.empty() ? "runs" : reason;
  }
  if (!lane.open) return absl::StrCat("lane ", job.lane.value(), " is closed");
  if (job.peak > lane.state.size()) {
    return absl::StrCat("its peak of ", FormatBytes(job.peak), " does not fit its lane of ",
                        FormatBytes(lane.state.size()));
  }
  if (turn != nullptr) return absl::StrCat("takes turns with j-", turn->id.value());
  const Job* bottom = lane.on(End::kBottom);
  const Job* top = lane.on(End::kTop);
  if (bottom != nullptr && top != nullptr) {
    return absl::StrCat("j-", bottom->id.value(), " and j-", top->id.value(),
                        " have both ends of lane ", job.lane.value());
  }
  End end = bottom == nullptr ? End::kBottom : End::kTop;
  if (bottom == nullptr && top == nullptr && job.in_flight > 0) end = job.last_end;
  if (!impl_->CouldStart(job.lane, end, job)) return "its last step still executes";
  if (const Job* other = impl_->HeldBackBy(job.lane, job); other != nullptr) {
    return absl::StrCat("is held back: its step would keep j-", other->id.value(),
                        ", which comes first, from the next one");
  }
  const Job* head = impl_->Head(job.lane, end);
  if (head != &job) return absl::StrCat("j-", head->id.value(), " starts before it");
  if (bottom == nullptr && top == nullptr) return "starts";
  const std::string reason = MemoryReason(lane, end, job);
  return reason.empty() ? "starts" : reason;
}

void Scheduler::CheckInvariants() const {
  absl::flat_hash_map<const Job*, int> in_flight;
  for (const auto& [seq, launch] : impl_->launches) ++in_flight[launch.job.get()];
  std::set<const Job*> queued, stepping;
  for (size_t i = 0; i < impl_->lanes.size(); ++i) {
    const Lane& lane = impl_->lanes[i];
    lane.state.CheckInvariants();
    for (End end : {End::kBottom, End::kTop}) {
      const Job* job = lane.on(end);
      if (job == nullptr) {
        EBB_CHECK(lane.state.Held(end) == Bytes(0));
        continue;
      }
      EBB_CHECK(job->in_step && job->lane.index() == i && stepping.insert(job).second);
      EBB_CHECK(job->next < job->profiles[job->profile].step.extent.size());
      EBB_CHECK(
          lane.state.Held(end) ==
          (job->next == 0 ? Bytes(0) : job->profiles[job->profile].step.held_after[job->next - 1]));
      // What lets the leader go on whatever happens: the follower never holds what it needs.
      if (lane.Leads(end)) EBB_CHECK(lane.state.Fits(end, job->Need()));
    }
    for (const Job* job : lane.waiting) {
      EBB_CHECK(job->ready && job->lane.index() == i && queued.insert(job).second);
    }
  }
  for (const auto& [id, job] : impl_->jobs) {
    EBB_CHECK(job->id == id && !(job->ready && job->in_step));
    EBB_CHECK(job->ready == (queued.count(job.get()) == 1));
    EBB_CHECK(job->in_step == (stepping.count(job.get()) == 1));
    EBB_CHECK(job->in_flight == in_flight[job.get()]);
    EBB_CHECK(job->ready || job->queue.overtaken == 0);
    for (const Job* other : job->turns) {
      EBB_CHECK(other != job.get() && other->turns.contains(job.get()));
      EBB_CHECK(impl_->jobs.at(other->id).get() == other);
    }
  }
}

}  // namespace ebb::scheduler
