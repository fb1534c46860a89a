// In which order a job's state goes to the host: first what comes and goes beside kernels that take
// longer than its copies. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/device_spec.h"
#include "runtime/resident_layout.h"
#include "runtime/step_program.h"

namespace ebb::runtime {

// A prefix of the order.
struct StreamedPart {
  std::vector<std::string> names;
  Bytes bytes;
  // Of a training step, alone on the device: time for which it would wait for the bus. An estimate
  // from the kernels' operations and bytes; with what the bus takes and peak rates unknown, only
  // the order is right.
  double exposed_us = 0;
};

// The order of `candidates`, each put where the time that it adds to what all before it expose is
// least for a byte, and cut into about `parts` prefixes of equally growing bytes.
std::vector<StreamedPart> StreamOrder(const StepProgram& training, const DeviceSpec& device,
                                      const std::vector<ResidentLayout::StateValue>& candidates,
                                      int parts);

}  // namespace ebb::runtime
