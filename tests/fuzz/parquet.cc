// Data sets in Parquet, with sparse features.
#include "tests/fuzz/dataset_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ebb::data::FileOptions options;
  options.sparse = {{.match = "*", .pad_to = 3}};
  const auto set = ebb::data::ParseDataSet(ebb::fuzz::Text(data, size), options, ebb::MiB(16));
  if (set.ok()) ebb::fuzz::CheckDataSet(**set);
  return 0;
}
