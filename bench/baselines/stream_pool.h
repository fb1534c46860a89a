// One process, a stream a job, memory allocated and freed in stream order from one pool, without a
// plan: every host thread launches ahead until its queue is full or memory is out.
#pragma once

#include <deque>
#include <vector>

#include "bench/baselines/simulation.h"

namespace ebb::bench {

// Bytes freed by a launch serve the same stream's next launch at once, another stream's if that
// waits for the launch, everybody once it is complete. A host thread whose bytes are not there
// blocks; when all have blocked with nothing running, the step that has come least far is dropped.
class StreamPool final : public SharingPolicy {
 public:
  // `queue`: launches that a stream takes ahead; `launch_us`: of the host thread, each.
  StreamPool(int jobs, int queue, double launch_us);
  void Decide(Simulation& sim) override;
  void BreakDeadlock(Simulation& sim) override;

 private:
  struct Freed {
    Simulation::Event event;  // of the launch that used them last
    Bytes bytes;
  };
  struct Host {
    std::deque<Freed> freed;  // behind launches that may not be complete
    std::deque<int> kernels;  // of its launches in flight
    double clock = 0;         // when its thread can make the next launch
  };
  void Forget(const Simulation& sim);
  bool TryLaunch(Simulation& sim, int job);

  const int queue_;
  const double launch_us_;
  std::vector<Host> hosts_;
};

}  // namespace ebb::bench
