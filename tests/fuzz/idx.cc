// Data sets in IDX, the format of MNIST.
#include "tests/fuzz/dataset_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ebb::fuzz::ReadDataSet(ebb::fuzz::Text(data, size));
  return 0;
}
