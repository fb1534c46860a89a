// Job files. Up to the first zero byte it is a --set assignment, if there is one.
#include "client/yaml.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text = ebb::fuzz::Text(data, size);
  const size_t zero = text.find('\0');
  const auto spec =
      ebb::client::ParseSpec(zero == text.npos ? text : text.substr(zero + 1), "job.yaml");
  ebb::v1::JobSpec changed = spec.ok() ? *spec : ebb::v1::JobSpec();
  if (zero != text.npos) ebb::client::ApplyOverride(text.substr(0, zero), &changed).IgnoreError();
  return 0;
}
