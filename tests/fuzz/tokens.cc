// Token files. The first bytes are the type, the window and the range.
#include "data/tokens.h"

#include "tests/fuzz/dataset_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  ebb::data::TokenOptions options;
  options.type = static_cast<ebb::data::TokenType>(data[0] % 3);
  options.window = data[1];
  options.from = data[2] / 255.0;
  options.to = data[3] / 255.0;
  const auto set =
      ebb::data::ParseTokens(ebb::fuzz::Text(data + 4, size - 4), options, ebb::MiB(16));
  if (set.ok()) ebb::fuzz::CheckDataSet(**set);
  return 0;
}
