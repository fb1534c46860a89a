// Data sets of arrays: .npz and .npy, also gzipped.
#include "tests/fuzz/dataset_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ebb::fuzz::ReadDataSet(ebb::fuzz::Text(data, size));
  return 0;
}
