// What a job's evaluations decide: its learning rate, whether it goes on, which state was the best.
// A pure state machine, so that a job's course is the same solo and co-trained.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "runtime/job.h"

namespace ebb::runtime {

// Do evaluations decide anything in this job? Then none of its steps begins between the end of an
// evaluation and the decision.
bool EvaluationsDecide(const JobSpec& spec);

// InvalidArgument: a metric that is not measured, a number out of range, or no validation data.
absl::Status CheckDecisions(const JobSpec& spec);

// InvalidArgument: something is to be decided in the course of a job of `total_steps` steps, but
// its first regular evaluation would come after `first` steps, when it has ended.
absl::Status CheckEvaluationsCome(const JobSpec& spec, int64_t first, int64_t total_steps);

struct Judgement {
  bool best = false;        // its state is the one to keep
  bool stop = false;        // it ends here
  bool lower_rate = false;  // Lowered() says to what
};

class Judge {
 public:
  explicit Judge(const JobSpec& spec);

  // `values` of one evaluation by name, such as "val/loss"; those that are watched must be there.
  Judgement Decide(const std::map<std::string, double>& values);
  // The learning rate after a fall.
  double Lowered(double rate) const;
  // How long nothing was better, in words.
  std::string WhyStopped() const;

 private:
  // The best value so far, and for how many evaluations none was better.
  struct Record {
    explicit Record(const WatchedMetric& watched);
    // Is the value better than the best by more than `margin`? It is the best then.
    bool Improves(double value, double margin);
    WatchedMetric metric;
    double best;
    int64_t bad = 0;
  };
  bool PlateauEnds(double value);

  std::optional<EarlyStopSpec> early_;
  PlateauSpec plateau_;
  std::optional<Record> early_record_, plateau_record_, keep_record_;
  int64_t cooling_ = 0;
};

}  // namespace ebb::runtime
