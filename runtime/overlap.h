// How much the work of different jobs really overlapped, from the stamps of completed launches.
// Thread rule: one owner thread.
#pragma once

#include <map>
#include <vector>

#include "base/units.h"

namespace ebb::runtime {

class OverlapTracker {
 public:
  explicit OverlapTracker(int streams) : last_end_(streams), outstanding_(streams, 0) {}

  void Launched(int stream) { ++outstanding_[stream]; }
  // A launch of `stream` executed during [start, end]; launches of a stream complete in order.
  void Completed(int stream, Micros start, Micros end);

  Micros wall() const { return begun_ ? newest_ - first_ : Micros(0); }
  Micros busy() const { return busy_; }              // >= 1 launch executing
  Micros concurrent() const { return concurrent_; }  // >= 2

 private:
  void Settle();

  std::vector<Micros> last_end_;
  std::vector<int> outstanding_;
  std::map<Micros, int> edges_;  // time -> change in the number of executing launches
  int depth_ = 0;
  Micros settled_until_;
  bool begun_ = false;
  Micros first_, newest_, busy_, concurrent_;
};

}  // namespace ebb::runtime
