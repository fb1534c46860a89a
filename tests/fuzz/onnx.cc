// ONNX files: what can be imported is a sound graph whose weights can be written back.
#include "graph/verify.h"
#include "model/import.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ebb::model::ImportOptions options;
  options.batch_size = 2;
  options.untie_uniform = true;
  options.max_constant_bytes = 1 << 20;
  const absl::string_view bytes = ebb::fuzz::Text(data, size);
  const auto model = ebb::model::ImportOnnx(bytes, options);
  if (!model.ok()) return 0;
  EBB_FUZZ_CHECK(ebb::graph::Verify(model->graph).ok());
  const auto written = ebb::model::ExportOnnx(bytes, model->weights);
  if (!written.ok()) return 0;
  const auto again = ebb::model::ImportOnnx(*written, options);
  EBB_FUZZ_CHECK(again.ok());
  EBB_FUZZ_CHECK(again->weights.size() == model->weights.size());
  return 0;
}
