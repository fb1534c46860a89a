// Where a job's resident values and its staged batches lie, and what the residents start and end
// as. Free functions.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "device/device.h"
#include "graph/graph.h"
#include "runtime/prepare.h"

namespace ebb::runtime {

ResidentLayout LayOutResidents(const device::Device& device, const StepPrograms& programs);
// Fills in job->slot_*, from the programs and sources.
void LayOutSlots(Bytes alignment, PreparedJob* job);

// Fills in job->host_slots, job->metric_rooms and, where they are needed, job->host_image and
// job->best, when the job has been found to fit.
absl::Status AllocateHost(device::Device& device, PreparedJob* job);

// The bytes that the job's resident region starts with, into an image of zeros.
void MakeInitialImage(const PreparedJob& job, char* image);
// The tensors of a snapshot ([0, state_end) of the region) that have `role`.
graph::TensorMap TensorsOf(const PreparedJob& job, absl::Span<const char> snapshot,
                           graph::Role role);

}  // namespace ebb::runtime
