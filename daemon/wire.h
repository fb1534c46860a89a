// The only place where wire messages become native types and back. What comes in is hostile: all of
// it is validated here, and a field that is not supported is refused by name. Free functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/resolve.h"
#include "ebb/v1/job.pb.h"
#include "ebb/v1/service.pb.h"
#include "runtime/engine.h"
#include "runtime/job.h"

namespace ebb::daemon {

// What is loaded of the files that a spec refers to: all, or only the model, which gives the sizes.
enum class Files { kAll, kModel };

// Checks the spec and loads what it refers to. InvalidArgument and Unimplemented name the field.
absl::StatusOr<runtime::JobSpec> JobSpecFromWire(const v1::JobSpec& spec, Resolver* resolver,
                                                 Files files = Files::kAll);

// The parts of a spec; JobSpecFromWire calls them. All but the data need no files.
absl::Status BindFromWire(const v1::JobSpec& spec, runtime::JobSpec* job);
absl::Status DataFromWire(const v1::Data& data, Resolver* resolver, Files files,
                          runtime::JobSpec* job);
absl::Status PredictFromWire(const v1::JobSpec& spec, Resolver* resolver, Files files,
                             runtime::JobSpec* job);
absl::Status LossFromWire(const v1::JobSpec& spec, runtime::JobSpec* job);
// What evaluations decide, what is averaged, and which state is the result.
absl::Status DecisionsFromWire(const v1::JobSpec& spec, runtime::JobSpec* job);
absl::Status OptimizerFromWire(const v1::JobSpec& spec, runtime::JobSpec* job);
absl::Status ScheduleFromWire(const v1::JobSpec& spec, runtime::JobSpec* job);
absl::Status MetricsFromWire(const v1::JobSpec& spec, runtime::JobSpec* job);
absl::StatusOr<runtime::StopSpec> StopFromWire(const v1::Stop& stop);
absl::StatusOr<runtime::JobUpdate> UpdateFromWire(const v1::UpdateRequest& request);

// "j-17".
std::string JobLabel(JobId id);
v1::Job::State StateToWire(runtime::JobState state);
v1::Job ToWire(const runtime::JobInfo& info);
v1::MetricPoint ToWire(const runtime::MetricPoint& point);
v1::MemoryReport ToWire(const runtime::MemoryReport& memory, const runtime::OverlapReport& overlap);
v1::DeviceReport ToWire(const runtime::DeviceReport& report);
v1::ExplainReport ToWire(JobId id, const runtime::ExplainReport& report);
v1::Estimate ToWire(const std::string& device, const runtime::EstimateReport& report);
v1::StoredObject ToWire(const ObjectInfo& info);

}  // namespace ebb::daemon
