#include "tests/scheduler/mix.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "memory/stack_plan.h"
#include "scheduler/profile.h"
#include "scheduler/scheduler.h"
#include "tests/memory/step_profiles.h"

namespace ebb::scheduler {
namespace {

using memory::Dice;
using memory::LiveRange;
using memory::StepRanges;

constexpr Bytes kAlignment(64);

// One kind of step of a job: what the scheduler sees, and the buffers behind it.
struct Kind {
  StepProfile profile;
  struct Buffer {
    Bytes offset, bytes;
    int first = 0, last = 0;  // sub-models
  };
  std::vector<Buffer> buffers;
};

struct MixJob {
  std::vector<Kind> kinds;
  JobParams params;
  int steps_left = 0;
  enum { kAbsent, kIdle, kPending, kReady, kStepping, kGone } state = kAbsent;
  bool paused = false;
  int kind = 0;
  int in_flight = 0;
  size_t step = 0;          // of traces, while kStepping
  int64_t newest = -1;      // launch
  std::set<int64_t> turns;  // those that it takes turns with
};

// What happened, by virtual time.
struct StepTrace {
  const Kind* kind = nullptr;
  LaneId lane;
  End end = End::kBottom;
  Bytes lane_size;
  std::vector<int64_t> start, finish;  // by sub-model launched
};
struct LaunchTrace {
  int64_t job = 0;
  int64_t start = 0, finish = 0;
};

Kind MakeKind(Dice& dice) {
  const int64_t unit = dice(1, 40) * 64;
  StepRanges step;
  switch (dice(0, 3)) {
    case 0:
      step = memory::Chain(static_cast<int>(dice(2, 10)), dice, unit);
      break;
    case 1:
      step = memory::Residual(static_cast<int>(dice(1, 3)), dice, unit);
      break;
    case 2:
      step = memory::DenseConcat(static_cast<int>(dice(1, 2)), static_cast<int>(dice(2, 4)), dice,
                                 unit);
      break;
    default:
      step = memory::Arbitrary(static_cast<int>(dice(1, 16)), static_cast<int>(dice(1, 24)), dice,
                               unit);
  }
  const memory::StackPlan plan = memory::PlanStack(step.ranges, step.num_steps, kAlignment);
  std::vector<int> last;
  const int64_t cut = dice(10, 90);
  for (int i = 0; i < step.num_steps; ++i) {
    if (i + 1 == step.num_steps || dice.Chance(static_cast<int>(cut))) last.push_back(i);
  }
  const auto sub_model = [&](int index) {
    return static_cast<int>(std::lower_bound(last.begin(), last.end(), index) - last.begin());
  };
  Kind kind;
  kind.profile = ProfileOf(plan, step.ranges, kAlignment, last);
  for (size_t i = 0; i < step.ranges.size(); ++i) {
    const LiveRange& range = step.ranges[i];
    if (range.bytes == Bytes(0)) continue;
    kind.buffers.push_back(
        {plan.offset[i], range.bytes, sub_model(range.first), sub_model(range.last)});
  }
  return kind;
}

class Mix {
 public:
  Mix(uint64_t seed, const SchedulerRules& rules)
      : dice_(seed),
        sound_(rules.Sound()),
        policy_(static_cast<Policy>(dice_(0, 4))),
        scheduler_(policy_, rules) {}

  MixResult Run() {
    SetUp();
    Launch();
    while (result_.failure.empty() && !events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      event.action == Action::kFinished ? Finish(event.subject) : Act(event);
      CheckLedger();
      Launch();
    }
    if (result_.failure.empty()) CheckAllDone();
    if (result_.failure.empty()) CheckAddresses();
    return result_;
  }

 private:
  enum class Action { kFinished, kBatch, kResume, kReopen, kUser };
  struct Event {
    int64_t time;
    int64_t order;  // of posting; breaks ties
    Action action;
    int64_t subject;
    bool operator>(const Event& o) const {
      return std::tie(time, order) > std::tie(o.time, o.order);
    }
  };
  struct Stream {
    int64_t busy_until = 0;
    int64_t told_until = 0;  // completions are reported in order
  };

  void Fail(const std::string& what) {
    if (result_.failure.empty()) result_.failure = absl::StrCat(what, ", at time ", now_);
  }
  void Post(int64_t time, Action action, int64_t subject) {
    events_.push({time, order_++, action, subject});
  }
  MixJob& Job(int64_t id) { return jobs_[static_cast<size_t>(id)]; }
  int64_t AnyJob() { return dice_(0, static_cast<int64_t>(jobs_.size()) - 1); }
  LaneId AnyLane() { return LaneId(static_cast<int32_t>(dice_(0, num_lanes_ - 1))); }
  Bytes AnySize() { return AlignUp(Bytes(peak_.count() * dice_(100, 200) / 100), kAlignment); }
  Stream& StreamOf(LaneId lane, End end) { return streams_[{lane.value(), end}]; }

  void SetUp() {
    jobs_.resize(static_cast<size_t>(dice_(2, 6)));
    for (MixJob& job : jobs_) {
      const int64_t kinds = dice_(1, 2);  // training, and sometimes evaluation
      for (int64_t k = 0; k < kinds; ++k) job.kinds.push_back(MakeKind(dice_));
      job.params.weight = static_cast<double>(dice_(1, 4));
      job.params.priority = static_cast<int>(dice_(0, 2));
      job.params.max_in_flight = static_cast<int>(dice_(1, 8));
      job.steps_left = static_cast<int>(dice_(1, 12));
      for (const Kind& kind : job.kinds) peak_ = std::max(peak_, kind.profile.Peak());
    }
    num_lanes_ = dice_(1, 3);
    takes_turns_ = dice_.Chance(30);
    for (int64_t i = 0; i < num_lanes_; ++i) scheduler_.AddLane(AnySize());
    for (size_t i = 0; i < jobs_.size(); ++i) {
      Post(dice_.Chance(60) ? 0 : dice_(0, 2000), Action::kBatch, static_cast<int64_t>(i));
    }
    for (int64_t n = dice_(0, 16); n > 0; --n) Post(dice_(0, 3000), Action::kUser, 0);
  }

  // --- events ---

  void Act(const Event& event) {
    switch (event.action) {
      case Action::kFinished:
        break;
      case Action::kBatch:
        return Batch(event.subject);
      case Action::kResume:
        Job(event.subject).paused = false;
        if (Job(event.subject).state == MixJob::kPending) Batch(event.subject);
        return;
      case Action::kReopen:
        return scheduler_.OpenLane(LaneId(static_cast<int32_t>(event.subject)));
      case Action::kUser:
        return User();
    }
  }

  // The batch of the job's next step is there; the first one brings the job along.
  void Batch(int64_t id) {
    MixJob& job = Job(id);
    if (job.state == MixJob::kGone) return;
    if (job.state == MixJob::kAbsent) {
      std::vector<StepProfile> profiles;
      for (const Kind& kind : job.kinds) profiles.push_back(kind.profile);
      const absl::Status status = scheduler_.AddJob(JobId(id), profiles, job.params, AnyLane());
      if (!status.ok()) return Fail(status.ToString());
      job.state = MixJob::kIdle;
      for (int64_t other = 0; takes_turns_ && other < static_cast<int64_t>(jobs_.size()); ++other) {
        if (dice_.Chance(60)) ChangeTurns(id, other);
      }
    }
    if (job.paused) {
      job.state = MixJob::kPending;
      return;
    }
    job.kind = static_cast<int>(dice_(0, static_cast<int64_t>(job.kinds.size()) - 1));
    job.state = MixJob::kReady;
    scheduler_.Ready(JobId(id), job.kind);
  }

  void EndStep(int64_t id) {
    MixJob& job = Job(id);
    job.state = MixJob::kIdle;
    if (--job.steps_left > 0) {
      Post(now_ + (dice_.Chance(60) ? 0 : dice_(0, 300)), Action::kBatch, id);
    } else if (dice_.Chance(50)) {
      Remove(id);
    }
  }

  void Remove(int64_t id) {
    scheduler_.RemoveJob(JobId(id));
    Job(id).state = MixJob::kGone;
    for (MixJob& other : jobs_) other.turns.erase(id);
    Job(id).turns.clear();
  }

  bool Here(int64_t id) {
    return Job(id).state != MixJob::kAbsent && Job(id).state != MixJob::kGone;
  }

  void ChangeTurns(int64_t a, int64_t b) {
    if (a == b || !Here(a) || !Here(b)) return;
    if (Job(a).turns.contains(b)) {
      scheduler_.RunTogether(JobId(a), JobId(b));
      Job(a).turns.erase(b);
      Job(b).turns.erase(a);
      return;
    }
    scheduler_.TakeTurns(JobId(a), JobId(b));
    Job(a).turns.insert(b);
    Job(b).turns.insert(a);
    any_turns_ = true;
  }

  void User() {
    const int64_t id = AnyJob();
    MixJob& job = Job(id);
    const bool here = Here(id);
    const LaneId lane = AnyLane();
    switch (dice_(0, 8)) {
      case 0:  // the rest of a step is given up
        if (job.state != MixJob::kStepping) return;
        scheduler_.DropStep(JobId(id));
        ++result_.dropped;
        return EndStep(id);
      case 1:  // cancel
        if (!here) return;
        result_.dropped += job.state == MixJob::kStepping;
        return Remove(id);
      case 2:  // pause: at once if the step has not started, else at its end
        if (!here || job.paused) return;
        job.paused = true;
        if (scheduler_.Unready(JobId(id)) != (job.state == MixJob::kReady)) {
          return Fail("Unready() is wrong about what was ready");
        }
        if (job.state == MixJob::kReady) job.state = MixJob::kPending;
        return Post(now_ + dice_(1, 1000), Action::kResume, id);
      case 3:
        if (!here) return;
        job.params.weight = static_cast<double>(dice_(1, 4));
        job.params.max_in_flight = static_cast<int>(dice_(1, 8));
        return scheduler_.UpdateJob(JobId(id), job.params);
      case 4:
        scheduler_.CloseLane(lane);
        return Post(now_ + dice_(1, 500), Action::kReopen, lane.value());
      case 5:
        if (!here) return;
        if (scheduler_.MoveJob(JobId(id), lane).ok() == (job.state == MixJob::kStepping)) {
          return Fail("MoveJob() is wrong about what is in flight");
        }
        return;
      case 6:
      case 7:
        return ChangeTurns(id, AnyJob());
      default:
        if (scheduler_.lane(lane).Drained()) scheduler_.ResizeLane(lane, AnySize());
    }
  }

  void Finish(int64_t seq) {
    const LaunchTrace& launch = launches_[static_cast<size_t>(seq)];
    scheduler_.Finished(LaunchSeq(seq), Micros(launch.finish - launch.start));
    --Job(launch.job).in_flight;
    --outstanding_;
  }

  // --- decisions ---

  void Launch() {
    while (result_.failure.empty()) {
      const std::optional<Decision> decision = scheduler_.Next();
      if (!decision) break;
      Execute(*decision);
      CheckLedger();
      CheckOvertaking();
    }
    if (outstanding_ > 0) return;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      if (jobs_[i].state != MixJob::kReady && jobs_[i].state != MixJob::kStepping) continue;
      const JobId id(static_cast<int64_t>(i));
      if (scheduler_.StandingOf(id) != Standing::kPaused) {
        Fail(absl::StrCat("dead-lock: job ", i, " ", scheduler_.Why(id)));
      }
    }
  }

  void Execute(const Decision& decision) {
    const int64_t id = decision.job.value();
    MixJob& job = Job(id);
    if (decision.seq.value() != static_cast<int64_t>(launches_.size())) Fail("a launch is skipped");
    if (decision.first) {
      if (job.state != MixJob::kReady) return Fail("a step starts that is not ready");
      job.state = MixJob::kStepping;
      job.step = steps_.size();
      steps_.push_back({&job.kinds[static_cast<size_t>(job.kind)],
                        decision.lane,
                        decision.end,
                        scheduler_.lane(decision.lane).size(),
                        {},
                        {}});
    }
    StepTrace& step = steps_[job.step];
    if (job.state != MixJob::kStepping || decision.lane != step.lane || decision.end != step.end ||
        decision.profile != job.kind || decision.sub_model != static_cast<int>(step.start.size())) {
      return Fail("a sub-model is launched out of order");
    }
    if (++job.in_flight > job.params.max_in_flight) Fail("too many sub-models in flight");

    Stream& stream = StreamOf(decision.lane, decision.end);
    int64_t start = std::max(now_, stream.busy_until);
    for (const std::optional<LaunchSeq>& event : {decision.wait, decision.previous}) {
      if (!event) continue;
      if (event->value() >= static_cast<int64_t>(launches_.size())) {
        return Fail("a wait names an event that has not been recorded");
      }
      start = std::max(start, launches_[static_cast<size_t>(event->value())].finish);
    }
    if (job.newest >= 0 && start < launches_[static_cast<size_t>(job.newest)].finish) {
      return Fail("a job overtakes its own last step");
    }
    if (decision.first) start = std::max(start, CheckTurn(job, decision));
    const int64_t duration = dice_.Chance(70)   ? dice_(1, 40)
                             : dice_.Chance(80) ? 1
                                                : dice_(40, 400);
    const int64_t finish = start + duration;
    result_.together += start < StreamOf(decision.lane, memory::Other(decision.end)).busy_until;
    result_.waits += decision.wait.has_value();
    ++result_.launches;
    stream.busy_until = finish;
    stream.told_until = std::max(stream.told_until, finish + (dice_.Chance(70) ? 0 : dice_(0, 60)));
    job.newest = decision.seq.value();
    launches_.push_back({id, start, finish});
    step.start.push_back(start);
    step.finish.push_back(finish);
    ++outstanding_;
    Post(stream.told_until, Action::kFinished, decision.seq.value());
    if (decision.last != (step.start.size() == step.kind->profile.extent.size())) {
      return Fail("a step ends at the wrong sub-model");
    }
    if (decision.last) EndStep(id);
  }

  // When its turn begins on the device.
  int64_t CheckTurn(const MixJob& job, const Decision& decision) {
    int64_t start = 0, theirs = 0;
    for (const LaunchSeq& event : decision.after) {
      if (event >= decision.seq) Fail("a turn waits for an event that has not been recorded");
      start = std::max(start, launches_[static_cast<size_t>(event.value())].finish);
    }
    for (const int64_t id : job.turns) {
      const MixJob& other = Job(id);
      if (other.state == MixJob::kStepping) Fail("a step starts out of turn");
      if (other.newest < 0) continue;
      theirs = std::max(theirs, launches_[static_cast<size_t>(other.newest)].finish);
    }
    // What is known to be complete needs no wait.
    if (start < theirs && now_ < theirs) Fail("a step executes out of turn");
    result_.turns += !job.turns.empty();
    return start;
  }

  // --- checks ---

  void CheckLedger() {
    for (int32_t i = 0; i < num_lanes_; ++i) {
      const memory::LaneState& lane = scheduler_.lane(LaneId(i));
      const memory::LaneState::Totals sum = lane.Sum();
      if (std::min({sum.held[0], sum.held[1], sum.waiting, sum.free}) < Bytes(0) ||
          sum.held[0] + sum.held[1] + sum.waiting + sum.free != lane.size()) {
        Fail("the ledger does not sum to the lane");
      }
    }
    if (sound_) scheduler_.CheckInvariants();
  }

  void CheckOvertaking() {
    const int64_t others = static_cast<int64_t>(jobs_.size()) - 1;
    // Others pass a job that waits for its turn, whatever the policy.
    const int64_t bound = policy_ == Policy::kFifo && !any_turns_ ? others : kAgeAfter + others;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      if (jobs_[i].state != MixJob::kReady) continue;
      const int64_t overtaken = scheduler_.Overtaken(JobId(static_cast<int64_t>(i)));
      result_.most_overtaken = std::max(result_.most_overtaken, overtaken);
      if (overtaken > bound) Fail(absl::StrCat("job ", i, " starves"));
    }
  }

  void CheckAllDone() {
    for (const MixJob& job : jobs_) {
      if (job.state != MixJob::kGone && job.steps_left > 0) Fail("a job has steps left at the end");
    }
    for (int32_t i = 0; i < num_lanes_; ++i) {
      if (!scheduler_.lane(LaneId(i)).Drained()) Fail("a lane is not empty at the end");
    }
  }

  // A buffer is occupied from the start of the launch that makes it to the end of the one that
  // reads it last. No two of different steps may meet in time and address.
  void CheckAddresses() {
    struct Box {
      int64_t start, finish;
      int32_t lane;
      Bytes low, high;
      size_t step;
    };
    std::vector<Box> boxes;
    for (size_t i = 0; i < steps_.size(); ++i) {
      const StepTrace& step = steps_[i];
      const int launched = static_cast<int>(step.start.size());
      for (const Kind::Buffer& buffer : step.kind->buffers) {
        if (buffer.first >= launched) continue;
        const int last = std::min(buffer.last, launched - 1);
        const Bytes low = step.end == End::kBottom ? buffer.offset
                                                   : step.lane_size - buffer.offset - buffer.bytes;
        boxes.push_back({step.start[static_cast<size_t>(buffer.first)],
                         step.finish[static_cast<size_t>(last)], step.lane.value(), low,
                         low + buffer.bytes, i});
      }
    }
    std::sort(boxes.begin(), boxes.end(),
              [](const Box& a, const Box& b) { return a.start < b.start; });
    std::vector<Box> live;
    for (const Box& box : boxes) {
      std::erase_if(live, [&](const Box& other) { return other.finish <= box.start; });
      for (const Box& other : live) {
        if (other.step != box.step && other.lane == box.lane && other.low < box.high &&
            box.low < other.high) {
          now_ = box.start;
          return Fail("two live blocks share addresses");
        }
      }
      live.push_back(box);
    }
  }

  Dice dice_;
  bool sound_;
  Policy policy_;
  Scheduler scheduler_;
  MixResult result_;
  std::vector<MixJob> jobs_;
  bool takes_turns_ = false, any_turns_ = false;
  Bytes peak_;
  int64_t num_lanes_ = 0;
  int64_t now_ = 0, order_ = 0, outstanding_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::map<std::pair<int32_t, End>, Stream> streams_;
  std::vector<LaunchTrace> launches_;
  std::vector<StepTrace> steps_;
};

}  // namespace

MixResult RunMix(uint64_t seed, const SchedulerRules& rules) { return Mix(seed, rules).Run(); }

}  // namespace ebb::scheduler
