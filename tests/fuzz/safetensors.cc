// Weights in safetensors: what can be read is written and read again the same.
#include "model/safetensors.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tensors = ebb::model::ReadSafetensors(ebb::fuzz::Text(data, size));
  if (!tensors.ok()) return 0;
  const auto again = ebb::model::ReadSafetensors(ebb::model::WriteSafetensors(*tensors));
  EBB_FUZZ_CHECK(again.ok());
  EBB_FUZZ_CHECK(again->size() == tensors->size());
  for (const auto& [name, tensor] : *tensors) {
    const auto it = again->find(name);
    EBB_FUZZ_CHECK(it != again->end());
    EBB_FUZZ_CHECK(it->second.data == tensor.data);
  }
  return 0;
}
