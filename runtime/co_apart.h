// Which sub-models of two jobs lose by executing together, and so wait for each other on the
// device: learnt from launches that met (docs/scheduling.md, "Sub-models that lose"). A pure state
// machine: no clock, thread or device inside. Thread rule: one owner thread.
//
//   rate of x beside y: the progress that x makes a microsecond while exactly x and y execute. A
//     launch is one equation: its solo time = its time alone + the sum of rate x time beside each
//     that it met.
//   x and y are apart while their two rates, added, are clearly below 1: in turns they make 1
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "base/ids.h"
#include "runtime/co_residence.h"

namespace ebb::runtime {

class CoApart {
 public:
  // A launch whose sub-model takes `solo` microseconds by itself.
  void Ended(const LaunchSpan& span, double solo);

  // They would meet: shall one wait for the other? Counts, since now and then they are to meet.
  bool Wait(const SubModelRef& a, const SubModelRef& b);
  // Do any wait?
  bool any() const { return apart_ > 0; }

  void Forget(JobId job);
  void Clear();

  // Pairs of sub-models of the two jobs: known ones, and those of them that are apart.
  std::pair<int, int> Count(JobId a, JobId b) const;

 private:
  struct Rate {
    std::array<double, 3> newest = {};
    int count = 0;
    double median = 0;
    void Add(double rate);
  };
  struct Pair {
    std::array<Rate, 2> rates;  // of the lesser job's beside the other's, and the other way round
    bool apart = false;
    bool trial = false;   // together again, after having lost
    int below = 0;        // verdicts in a row
    int tries = 0;        // lost
    int64_t avoided = 0;  // meetings, since they are apart
    bool known() const;
  };
  using Key = std::pair<SubModelRef, SubModelRef>;  // the lesser job's first
  static Key KeyOf(const SubModelRef& a, const SubModelRef& b) {
    return a.job < b.job ? Key(a, b) : Key(b, a);
  }
  static Rate& RateOf(Pair& pair, const SubModelRef& of, const SubModelRef& beside) {
    return pair.rates[of.job < beside.job ? 0 : 1];
  }
  void Judge(Pair& pair);

  std::map<Key, Pair> pairs_;  // its nodes stay where they are
  int apart_ = 0;
};

}  // namespace ebb::runtime
