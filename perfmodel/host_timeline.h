// What a rank's host did in a traced step, as pieces of time one after the other, each with the op
// that it belongs to: what perfmodel/host_times.h learns from and what programs are made of. Free
// functions and plain data.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "perfmodel/formats/execution_trace.h"
#include "perfmodel/formats/kineto.h"

namespace ebb::perfmodel {

// The five overheads of Lin et al., here of ops at every depth, so that they sum to the host's
// time.
enum class HostPart : uint8_t {
  kBetween,  // T1: between two ops of the program or of an annotated range
  kBefore,   // T2: from an op's begin to the first thing in it
  kAfter,    // T3: from the last thing in an op to its end
  kCall,     // T4: a call of the runtime
  kWithin,   // T5: between two things in an op, or all of an op with nothing in it
};

enum class HostAct : uint8_t {
  kNone,
  kLaunch,           // at the piece's end `event` is on its stream
  kAwaitLast,        // the call waits for the stream of what was last launched
  kAwaitAll,         // the call waits for all streams
  kAwaitCollective,  // what the thread launches next waits for a collective
};

struct HostPiece {
  HostPart part = HostPart::kBetween;
  std::string op = {}, previous = {},
              next = {};  // the op; what came before the piece and after it, in the op
  double micros = 0;
  HostAct act = HostAct::kNone;
  int event = -1;                                  // of kLaunch: index of the trace's events
  const RecordedCollective* collective = nullptr;  // of kLaunch and kAwaitCollective, where known
};

struct HostTimeline {
  double begin = 0;       // us on the machine's clock
  double device_end = 0;  // the same clock: when the last kernel of the step ended
  std::vector<HostPiece> pieces;
};

// The last range "ProfilerStep#..." of the trace, without one all of it. Threads count as one host:
// where they take turns, as forward and autograd do. `execution` (may be null; must outlive the
// answer) says what the collectives are: joined by record function ids, else by thread, order and
// name. InvalidArgument: nothing was launched in the step, or the traces have different
// collectives.
absl::StatusOr<HostTimeline> TimelineOf(const KinetoTrace& trace, const ExecutionTrace* execution);

}  // namespace ebb::perfmodel
