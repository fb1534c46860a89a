// The call Estimate: the live device, or simulated ones that exist for the answer only.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "daemon/service.h"
#include "daemon/supported.h"
#include "daemon/wire.h"
#include "device/device.h"
#include "device/sim/profile.h"
#include "partitioner/partition.h"
#include "proto/status.h"
#include "runtime/estimate.h"

namespace ebb::daemon {
namespace {

constexpr char kLive[] = "live";
constexpr int kMostDevices = 16;

// Only what is built in: a profile in a file would be a path on the daemon's host.
absl::Status CheckDevice(absl::string_view name) {
  if (name == kLive) return absl::OkStatus();
  const std::vector<std::string> profiles = device::BuiltinSimProfiles();
  for (const std::string& profile : profiles) {
    for (const char* overlap : {"", "+slots", "+vector"}) {
      if (name == absl::StrCat("sim:", profile, overlap)) return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no device '", name, "' to estimate for; there are live and sim:",
                   absl::StrJoin(profiles, ", sim:"), ", each also with +slots or +vector"));
}

absl::StatusOr<runtime::EstimateReport> OnSimulated(const runtime::JobSpec& spec,
                                                    const std::string& name) {
  EBB_ASSIGN_OR_RETURN(const auto device, device::OpenDevice(name, {}));
  const Bytes memory = device->spec().memory;
  return runtime::EstimateJob(spec, runtime::EmptyPool(memory, device->granules().granule()),
                              *device, {.quantum = partitioner::QuantumFor(memory)});
}

absl::StatusOr<v1::EstimateResponse> EstimateAll(const grpc::ServerContext& context,
                                                 const v1::EstimateRequest& request,
                                                 const runtime::Engine& engine,
                                                 Resolver* resolver) {
  EBB_RETURN_IF_ERROR(CheckKnown(request));
  std::vector<std::string> devices(request.devices().begin(), request.devices().end());
  if (devices.empty()) devices.emplace_back(kLive);
  if (devices.size() > kMostDevices) {
    return absl::InvalidArgumentError(
        absl::StrCat("devices has ", devices.size(), " entries; at most ", kMostDevices));
  }
  for (const std::string& name : devices) EBB_RETURN_IF_ERROR(CheckDevice(name));
  EBB_ASSIGN_OR_RETURN(runtime::JobSpec spec,
                       JobSpecFromWire(request.spec(), resolver, Files::kModel));
  spec.abandoned = [&context] { return context.IsCancelled(); };
  v1::EstimateResponse response;
  for (const std::string& name : devices) {
    const auto report = name == kLive ? engine.Estimate(spec) : OnSimulated(spec, name);
    if (!report.ok()) return report.status();
    *response.add_estimates() = ToWire(name, *report);
  }
  return response;
}

}  // namespace

grpc::Status Service::Estimate(grpc::ServerContext* context, const v1::EstimateRequest* request,
                               v1::EstimateResponse* response) {
  auto estimates = EstimateAll(*context, *request, *engine_, resolver_);
  if (!estimates.ok()) return proto::ToGrpc(estimates.status());
  *response = *std::move(estimates);
  return grpc::Status::OK;
}

}  // namespace ebb::daemon
