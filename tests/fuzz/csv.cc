// Data sets of text. The first byte is the label column.
#include "tests/fuzz/dataset_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  ebb::data::FileOptions options;
  options.csv.label_column = static_cast<int8_t>(data[0]);
  const auto set =
      ebb::data::ParseDataSet(ebb::fuzz::Text(data + 1, size - 1), options, ebb::MiB(16));
  if (set.ok()) ebb::fuzz::CheckDataSet(**set);
  return 0;
}
