// Which launches shared the device with which, from the stamps of completed ones: a sweep over
// device time. Thread rule: one owner thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/ids.h"
#include "base/units.h"

namespace ebb::runtime {

// A sub-model on the device. `micros` runs from when its stream was free for it to its end: what a
// job pays for launching and copying counts as its own time.
struct LaunchSpan {
  JobId job;
  int program = 0;
  int sub_model = 0;
  bool last = false;  // of its step
  double micros = 0;
  bool shared = false;  // with other jobs' launches, at any time
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

  // A launch that begins a job's turn waits for the jobs whose turn it was, and is not on the
  // device meanwhile.
  enum class Begins { kAtOnce, kAfterOthers };

  CoResidence(int streams, Watcher* watcher) : watcher_(watcher), streams_(streams) {}

  // `now` is the device's clock; `span` needs no times. The launch waits for those of the jobs
  // `after` and does not count as running meanwhile, whatever is copied for it.
  void Launched(int stream, const LaunchSpan& span, std::vector<JobId> after, Micros now);
  // The oldest launch of `stream` executed during [start, end]. Tells the watcher what has become
  // certain, in order of time.
  void Completed(int stream, Micros start, Micros end);
  void Forget(JobId job) { last_end_.erase(job); }

 private:
  struct Pending {
    LaunchSpan span;
    std::vector<JobId> after;
    Micros launched;
  };
  struct Stream {
    std::deque<Pending> outstanding;
    Micros last_end;
  };
  enum class Edge { kEnd, kBegin };  // at one instant ends come first

  Micros BeginOf(const Stream& stream, const Pending& pending, Micros start, Micros end) const;
  Micros Horizon() const;
  void Settle();
  void Pass(Micros until);

  Watcher* watcher_;
  std::vector<Stream> streams_;
  std::map<JobId, Micros> last_end_;
  std::multimap<std::pair<Micros, Edge>, std::shared_ptr<LaunchSpan>> edges_;
  std::vector<std::shared_ptr<LaunchSpan>> running_;
  std::vector<const LaunchSpan*> view_;  // of running_
  Micros settled_until_, newest_;
};

}  // namespace ebb::runtime
