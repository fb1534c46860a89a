// Which launches shared the device with which, from the stamps of completed ones: a sweep over
// device time. Thread rule: one owner thread.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "base/ids.h"
#include "base/units.h"
#include "memory/lane.h"

namespace ebb::runtime {

using LaunchSeqs = absl::InlinedVector<memory::LaunchSeq, 2>;

// A sub-model of one of a job's programs.
struct SubModelRef {
  JobId job;
  int program = 0;
  int sub_model = 0;

  friend auto operator<=>(const SubModelRef&, const SubModelRef&) = default;
};

// A sub-model on the device. `micros` runs from when its stream was free for it, and what it waits
// for had ended, to its end: what a job pays for launching and copying counts as its own time.
struct LaunchSpan {
  JobId job;
  int program = 0;
  int sub_model = 0;
  bool last = false;  // of its step
  memory::LaunchSeq seq;
  bool copies_in = false;  // over the bus, before its kernels
  double micros = 0;
  double waited = 0;    // before that, by choice (LaunchWaits::apart)
  bool shared = false;  // with other jobs' launches, at any time

  // How long its kernels ran beside those of exactly one other launch, by themselves, and among
  // more.
  struct Meeting {
    SubModelRef with;
    double micros = 0;
  };
  absl::InlinedVector<Meeting, 4> met;
  double alone = 0, crowded = 0;
  bool copied = false;  // its kernels run

  SubModelRef ref() const { return {job, program, sub_model}; }
};

// The launches of other streams that one waits for on the device.
struct LaunchWaits {
  std::optional<memory::LaunchSeq> memory;  // whose memory it takes
  std::optional<memory::LaunchSeq> data;    // of its own job, before it
  LaunchSeqs apart;                         // that it would hinder
};

class CoResidence {
 public:
  class Watcher {
   public:
    virtual ~Watcher() = default;
    // For `micros` exactly these ran: at least one, each of another job.
    virtual void Ran(absl::Span<const LaunchSpan* const> spans, double micros) = 0;
    virtual void Ended(const LaunchSpan& span) = 0;
  };

  CoResidence(int streams, Watcher* watcher) : watcher_(watcher), streams_(streams) {}

  // `now` is the device's clock; `span` needs no times. The launch waits for those of the jobs
  // `after` and for `waits`, and does not count as running meanwhile, whatever is copied for it.
  void Launched(int stream, const LaunchSpan& span, std::vector<JobId> after,
                const LaunchWaits& waits, Micros now);
  // Calls fn(stream, span) for what has been launched and is not known to be complete, stream by
  // stream, oldest first.
  template <typename Fn>
  void ForEachOutstanding(Fn fn) const {
    for (size_t s = 0; s < streams_.size(); ++s) {
      for (const Pending& pending : streams_[s].outstanding) fn(static_cast<int>(s), pending.span);
    }
  }
  // The oldest launch of `stream` executed during [start, end]. Tells the watcher what has become
  // certain, in order of time.
  // `copied`: when what was copied in for it had arrived, if that was before its kernels.
  void Completed(int stream, Micros start, Micros end, Micros copied = {});
  void Forget(JobId job) { last_end_.erase(job); }

 private:
  using End = std::shared_ptr<std::optional<Micros>>;  // nothing yet: not reported
  using Ends = absl::InlinedVector<End, 2>;
  struct Pending {
    LaunchSpan span;
    std::vector<JobId> after;
    Micros launched;
    Ends needed, apart;  // of those that it waits for
    End end;             // if one waits for it
  };
  struct Stream {
    std::deque<Pending> outstanding;
    Micros last_end;
  };
  enum class Edge { kEnd, kBegin, kCopied };  // at one instant ends come first

  End EndOf(memory::LaunchSeq seq);  // null: it is not outstanding
  Micros BeginOf(const Stream& stream, const Pending& pending, Micros start, Micros end) const;
  Micros Horizon() const;
  void Settle();
  void Pass(Micros until);
  void CountMeetings(double micros);
  static void Meet(LaunchSpan& span, const LaunchSpan& other, double micros);

  Watcher* watcher_;
  std::vector<Stream> streams_;
  std::map<JobId, Micros> last_end_;
  std::multimap<std::pair<Micros, Edge>, std::shared_ptr<LaunchSpan>> edges_;
  std::vector<std::shared_ptr<LaunchSpan>> running_;
  std::vector<const LaunchSpan*> view_;  // of running_
  Micros settled_until_, newest_;
};

}  // namespace ebb::runtime
