// Fabrics as YAML. What is read is written and read back as the same, and answers.
#include "perfmodel/fabric_file.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto fabric = ebb::perfmodel::ParseFabric(ebb::fuzz::Text(data, size), "fabric.yaml");
  if (!fabric.ok()) return 0;
  const std::string text = ebb::perfmodel::FabricText(*fabric);
  const auto again = ebb::perfmodel::ParseFabric(text, "again.yaml");
  EBB_FUZZ_CHECK(again.ok());
  EBB_FUZZ_CHECK(ebb::perfmodel::FabricText(*again) == text);
  for (const int64_t ranks : {2, 8, 32}) {
    for (const auto kind :
         {ebb::perfmodel::CollectiveKind::kAllReduce, ebb::perfmodel::CollectiveKind::kAllToAll}) {
      const auto estimate = fabric->Predict({.kind = kind, .ranks = ranks, .bytes = 1e6});
      EBB_FUZZ_CHECK(!estimate.ok() || (estimate->median > 0 && estimate->low > 0 &&
                                        estimate->low <= estimate->high));
    }
  }
  return 0;
}
