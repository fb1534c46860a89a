// Index files: the rows of a fold.
#include "data/dataset.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ebb::data::ParseIndex(ebb::fuzz::Text(data, size), ebb::MiB(16)).IgnoreError();
  return 0;
}
