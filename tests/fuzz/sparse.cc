// Data sets in safetensors, with sparse features. The first byte is the length that rows are padded
// to, and whether longer ones are cut.
#include "tests/fuzz/dataset_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  using Overlong = ebb::data::SparseRule::Overlong;
  ebb::data::FileOptions options;
  options.sparse = {{.match = "*",
                     .pad_to = 1 + (data[0] & 15),
                     .overlong = data[0] & 16 ? Overlong::kCut : Overlong::kRefuse}};
  const absl::string_view bytes = ebb::fuzz::Text(data + 1, size - 1);
  const auto set = ebb::data::ParseDataSet(bytes, options, ebb::MiB(16));
  if (set.ok()) ebb::fuzz::CheckDataSet(**set);
  ebb::fuzz::ReadDataSet(bytes);
  return 0;
}
