// Small jobs that really train on the cpu device: perceptrons, convolutional networks and an
// encoder of a transformer, of differing widths and batches, on data drawn from a fixed seed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/job.h"

namespace ebb::bench {

std::vector<std::string> FidelityJobs();  // their names

// "mlp-512", or "mlp-512@64" with a batch of its own. NotFound lists the names; InvalidArgument: a
// batch that is not a number from 1 to 4096.
absl::StatusOr<runtime::JobSpec> FidelityJob(const std::string& name, int64_t steps);

}  // namespace ebb::bench
