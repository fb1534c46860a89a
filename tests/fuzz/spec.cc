// Job specs as they come over the wire: all that is judged before a file is read.
#include "daemon/supported.h"
#include "daemon/wire.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ebb::v1::JobSpec spec;
  if (!spec.ParseFromArray(data, static_cast<int>(size))) return 0;
  if (!ebb::daemon::CheckSupported(spec).ok()) return 0;
  ebb::runtime::JobSpec job;
  if (!ebb::daemon::BindFromWire(spec, &job).ok()) return 0;
  if (!ebb::daemon::LossFromWire(spec, &job).ok()) return 0;
  if (!ebb::daemon::OptimizerFromWire(spec, &job).ok()) return 0;
  if (!ebb::daemon::ScheduleFromWire(spec, &job).ok()) return 0;
  if (!ebb::daemon::MetricsFromWire(spec, &job).ok()) return 0;
  const auto stop = ebb::daemon::StopFromWire(spec.stop());
  if (!stop.ok()) return 0;
  job.stop = *stop;
  ebb::daemon::DecisionsFromWire(spec, &job).IgnoreError();
  return 0;
}
