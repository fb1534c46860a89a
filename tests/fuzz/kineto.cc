// Kineto's traces, read, written, and replayed as a rank's program. Behind a zero byte, an
// execution trace to join.
#include "perfmodel/formats/kineto.h"

#include "perfmodel/host_timeline.h"
#include "perfmodel/simulate.h"
#include "perfmodel/trace_program.h"
#include "tests/fuzz/fuzz.h"

using namespace ebb::perfmodel;  // NOLINT(build/namespaces)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text = ebb::fuzz::Text(data, size);
  const size_t zero = text.find('\0');
  const auto trace = ReadKineto(text.substr(0, zero));
  if (!trace.ok()) return 0;
  EBB_FUZZ_CHECK(ReadKineto(WriteKineto(*trace)).ok());
  ExecutionTrace execution;
  if (zero != text.npos) {
    auto read = ReadExecutionTrace(text.substr(zero + 1));
    if (read.ok()) execution = *std::move(read);
  }
  const auto timeline = TimelineOf(*trace, zero == text.npos ? nullptr : &execution);
  if (!timeline.ok()) return 0;
  const RankTrace rank{&*trace, &*timeline};
  const HostTimeline* const known = &*timeline;
  const auto host = HostTimes::Learn({&known, 1});
  EBB_FUZZ_CHECK(host.ok());
  for (const auto& programs : {ReplayOf({&rank, 1}), ProgramsOf({&rank, 1}, *host)}) {
    if (programs.ok()) Simulate(programs->ranks).status().IgnoreError();
  }
  return 0;
}
