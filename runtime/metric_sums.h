// What a job's steps measured, added up over an epoch or an evaluation. Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/units.h"
#include "runtime/step_program.h"

namespace ebb::runtime {

class MetricSums {
 public:
  // What one step left: `values` holds metric k of `step` at offsets[k], as graph/metrics.h says;
  // the first `valid` rows count. Scores are kept one by one until Take().
  void Add(const StepProgram& step, absl::Span<const char> values,
           const std::vector<Bytes>& offsets, int64_t valid);
  // By name ("loss", "accuracy") of all that has been added since the last Take(). Not a number
  // where nothing counted.
  std::map<std::string, double> Take();
  // Room for the scores of so many rows, so that Add() takes nothing from the heap for them.
  void Reserve(int64_t rows) { scores_.reserve(static_cast<size_t>(rows)); }

 private:
  struct Sum {
    double sum = 0;
    double count = 0;
  };
  // What is there stays when it is emptied, so that steps take nothing from the heap for it.
  std::map<std::string, Sum> sums_;
  std::map<std::string, std::vector<double>> counts_;  // [3, C]
  std::vector<std::pair<float, bool>> scores_;         // and whether the target is positive
  bool scored_ = false;
};

// The area under the receiver operating characteristic: how often a positive has a higher score
// than a negative, ties half. Exact; sorts them. Not a number unless there are both.
double AreaUnderRoc(std::vector<std::pair<float, bool>>* scores);
// The mean of 2 TP / (2 TP + FP + FN) over the classes that occur; counts are [3, C].
double MacroF1(const std::vector<double>& counts);

// Of the host's memory: what the scores of one evaluation of `rows` rows take.
Bytes ScoreBytes(const StepProgram& evaluation, int64_t rows);
// Scores that a step measures for each of its rows; 0: none.
int64_t ScoresPerRow(const StepProgram& step);

}  // namespace ebb::runtime
