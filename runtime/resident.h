// Where a job's resident values and its staged batches lie, and what the residents start and end
// as. Free functions.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "device/device.h"
#include "graph/graph.h"
#include "runtime/prepare.h"

namespace ebb::runtime {

ResidentLayout LayOutResidents(const device::Device& device, const StepPrograms& programs);
// Fills in job->slot_*, from the programs and sources.
void LayOutSlots(Bytes alignment, PreparedJob* job);

// Fills in job->host_slots and, where they are needed, job->host_image and job->best, when the job
// has been found to fit.
absl::Status AllocateHost(const DeviceSpec& device, PreparedJob* job);
absl::StatusOr<std::shared_ptr<HostBuffer>> AllocateImage(const DeviceSpec& device, Bytes bytes);

// The bytes that the job's resident region starts with.
std::vector<char> InitialImage(const PreparedJob& job);
// The tensors of a snapshot ([0, state_end) of the region) that have `role`.
graph::TensorMap TensorsOf(const PreparedJob& job, const std::vector<char>& snapshot,
                           graph::Role role);

}  // namespace ebb::runtime
