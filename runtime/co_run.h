// Co-running must pay: decides which pairs of jobs take turns instead of running together, from
// what their launches took on the device's clock (docs/scheduling.md, "Co-running must pay"). A
// pure state machine: no clock, thread or device inside. Thread rule: one owner thread.
//
//   solo time of a sub-model: the median of launches that shared the device with no other job; of a
//     step's first one, while the job takes turns: then its batch has been copied in meanwhile
//   progress of a launch: its solo time, spread evenly over the time that it took
//   progress of a pair: what both made while exactly they ran, over that time; in turns it is 1
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "runtime/co_apart.h"
#include "runtime/co_residence.h"
#include "runtime/co_run_report.h"

namespace ebb::runtime {

class CoRun final : private CoResidence::Watcher {
 public:
  CoRun(CoRunMode mode, int streams) : mode_(mode), residence_(streams, this) {}
  CoRun(const CoRun&) = delete;
  CoRun& operator=(const CoRun&) = delete;

  // The set of jobs changes, so all pairs are tried again. `sub_models`: of a training step.
  void Add(JobId job, int sub_models);
  void Remove(JobId job);
  // The job's steps do other work than so far: its solo times are measured anew.
  void Renew(JobId job, int sub_models);
  // Something else has changed for the job: its pairs are tried again.
  void Retry(JobId job);

  // The outstanding launches of other streams that a sub-model about to be launched is to wait for
  // on the device, since it and they are better off one after the other (co_apart.h).
  LaunchSeqs Before(int stream, const SubModelRef& sub_model);
  // Until its next launch the job waits for data from outside: the time that others then have to
  // themselves says nothing of what they and it are together.
  void Starves(JobId job) { starving_.insert(job); }
  // As CoResidence's.
  void Launched(int stream, const LaunchSpan& span, Micros now, const LaunchWaits& waits = {});
  void Completed(int stream, Micros start, Micros end, Micros copied = {}) {
    residence_.Completed(stream, start, end, copied);
  }

  struct Change {
    JobId a, b;
    bool turns;  // from now on; else together
  };
  // What has been decided since the last call.
  std::vector<Change> TakeChanges();

  // A training step without neighbours; nothing until it has been measured.
  std::optional<Micros> SoloStep(JobId job) const;
  std::vector<CoRunPair> PairsOf(JobId job) const;
  // Progress of three and more jobs that ran at once, by the newest verdict.
  std::optional<double> Crowd() const { return crowd_verdict_; }
  // The part of the time of the job's launches in which they waited as Before() had said.
  double Waiting(JobId job) const;
  // Why two jobs take turns, in words: "together 0.94 of their speed alone".
  std::string Words(JobId a, JobId b) const;

 private:
  // Times of launches of one sub-model that nobody shared the device with.
  struct Solo {
    std::array<double, 5> newest = {};
    int count = 0;  // ever
    double median = 0;
    void Add(double micros);
  };
  struct Job {
    std::array<std::vector<Solo>, 2> solo;  // by program and sub-model
    Solo lonely;                            // the first sub-model, while there are no turns
    int unknown = 0;                        // sub-models of a training step not measured
    int turns = 0;                          // pairs of it that take turns
    int64_t steps = 0;
    double waited = 0, micros = 0;  // of all its launches
    double SoloStep() const;
  };
  // Progress over a span of device time in which certain jobs ran.
  struct Window {
    double skip = 0;  // to be passed over first
    double micros = 0;
    double a = 0, b = 0;
  };
  struct Score {
    double a = 0, b = 0;
    double sum() const { return a + b; }
  };
  struct Pair {
    bool turns = false;
    bool applied = false;  // what TakeChanges has told
    bool trial = false;    // together again, after having lost
    int tries = 0;         // lost
    int64_t until = 0;     // steps of both at which they are tried again
    Window window;
    std::vector<Score> scores;     // of the newest windows
    std::optional<Score> verdict;  // when last judged by itself
    double crowded = 0;            // microseconds in the present window of the crowd
  };
  using Key = std::pair<JobId, JobId>;  // the lesser first

  void SampleSolo(const LaunchSpan& span, Job& job);
  void Ran(absl::Span<const LaunchSpan* const> spans, double micros) override;
  void Ended(const LaunchSpan& span) override;

  // What a launch makes of its solo time a microsecond; nothing if that is not known.
  std::optional<double> Density(const LaunchSpan& span) const;
  // One of the two may be null: it did not run.
  void RanAsPair(const Key& key, const LaunchSpan* first, const LaunchSpan* second, double micros);
  void RanAsCrowd(absl::Span<const LaunchSpan* const> spans, double micros);
  void Close(const Key& key, Pair& pair);
  void CloseCrowd();
  // `score`: nothing if the two lost in a crowd.
  void Lose(const Key& key, Pair& pair, std::optional<Score> score);
  void Begin(const Key& key, Pair& pair);
  void RetryPair(const Key& key, Pair& pair);
  bool Known(JobId job) const { return jobs_.at(job).unknown == 0; }
  bool Turns(const Key& key, const Pair& pair) const;
  CoRunPair::State StateOf(const Key& key, const Pair& pair) const;

  const CoRunMode mode_;
  CoResidence residence_;
  std::map<JobId, Job> jobs_;
  std::map<Key, Pair> pairs_;
  CoApart apart_;
  std::optional<Key> last_pair_;  // that ran, if nobody else has run since
  std::set<JobId> starving_;
  Window crowd_;  // three and more at once: `a` is the progress of all
  std::vector<double> crowd_scores_;
  std::optional<double> crowd_verdict_;
  bool dirty_ = false;
};

}  // namespace ebb::runtime
