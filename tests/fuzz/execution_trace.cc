// PyTorch's execution traces.
#include "perfmodel/formats/execution_trace.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ebb::perfmodel::ReadExecutionTrace(ebb::fuzz::Text(data, size)).status().IgnoreError();
  return 0;
}
