// All metric points of a job, in order. Grows by blocks of a few KiB: a point that has been added
// is never copied, and no step takes more than a block from the heap, however long the job runs.
// Thread rule: as a standard container.
#pragma once

#include <cstddef>
#include <list>
#include <vector>

#include "runtime/job.h"

namespace ebb::runtime {

class MetricLog {
 public:
  void Add(MetricPoint point);
  size_t size() const { return size_; }
  // The points from number `from` on (0 = the first); none beyond the end. Takes time by what it
  // returns.
  std::vector<MetricPoint> From(size_t from) const;

 private:
  std::list<std::vector<MetricPoint>> blocks_;  // all but the last are full
  size_t size_ = 0;
};

}  // namespace ebb::runtime
