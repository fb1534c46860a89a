// Chakra's traces: protobuf, or JSON where the text starts as an object. What is read is written
// and read again.
#include "perfmodel/formats/chakra.h"

#include "absl/strings/match.h"
#include "tests/fuzz/fuzz.h"

using namespace ebb::perfmodel;  // NOLINT(build/namespaces)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text = ebb::fuzz::Text(data, size);
  if (absl::StartsWith(text, "{")) {
    const auto trace = ReadChakraJson(text);
    if (trace.ok()) EBB_FUZZ_CHECK(ReadChakraJson(WriteChakraJson(*trace)).ok());
    return 0;
  }
  const auto trace = ReadChakra(text);
  if (!trace.ok()) return 0;
  const std::string written = WriteChakra(*trace);
  const auto again = ReadChakra(written);
  // By bytes: a number that is none differs from itself.
  EBB_FUZZ_CHECK(again.ok() && WriteChakra(*again) == written);
  return 0;
}
