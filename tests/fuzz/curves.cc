// What measuring programs print: nccl-tests, PARAM, tables. The first byte says which hints there
// are.
#include "perfmodel/curve_import.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  ebb::perfmodel::CurveHints hints;
  if (data[0] & 1) hints.kind = ebb::perfmodel::CollectiveKind::kAllReduce;
  if (data[0] & 2) hints.ranks = data[0] >> 2;
  const auto curves =
      ebb::perfmodel::ReadCurves(ebb::fuzz::Text(data + 1, size - 1), "AR_GPU8", hints);
  if (!curves.ok()) return 0;
  for (const auto& curve : *curves) {
    EBB_FUZZ_CHECK(curve.points().size() >= 2);
    double last = 0;
    for (double bytes = 1; bytes < 1e16; bytes *= 3) {
      const auto estimate = curve.At(bytes);
      EBB_FUZZ_CHECK(estimate.median >= last * (1 - 1e-12));  // of rounding
      EBB_FUZZ_CHECK(estimate.low <= estimate.median && estimate.median <= estimate.high);
      last = estimate.median;
    }
  }
  return 0;
}
