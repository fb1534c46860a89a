// PARAM's traces of communication, read, written and asked about.
#include "perfmodel/formats/comms_trace.h"

#include "tests/fuzz/fuzz.h"

using namespace ebb::perfmodel;  // NOLINT(build/namespaces)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto entries = ReadCommsTrace(ebb::fuzz::Text(data, size));
  if (!entries.ok()) return 0;
  for (const CommsTraceEntry& entry : *entries) CollectiveOf(entry).status().IgnoreError();
  EBB_FUZZ_CHECK(ReadCommsTrace(WriteCommsTrace(*entries)).ok());
  return 0;
}
