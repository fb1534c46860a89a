// Calibrate on the wire.
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/text.h"
#include "daemon/supported.h"
#include "daemon/wire_check.h"
#include "daemon/wire_predict.h"
#include "perfmodel/calibrate.h"

namespace ebb::daemon {
namespace {

using perfmodel::OpSample;

constexpr size_t kMostSamples = 20'000;
constexpr size_t kMostText = 16 << 20;

// Whose samples count.
absl::StatusOr<std::string> DeviceOf(const v1::CalibrateRequest& request,
                                     const std::vector<OpSample>& samples) {
  std::set<std::string> devices;
  for (const OpSample& sample : samples) devices.insert(sample.device);
  if (request.device().empty() && devices.size() == 1) return *devices.begin();
  if (devices.contains(request.device())) return request.device();
  return absl::InvalidArgumentError(absl::StrCat(
      "device: '", Escaped(request.device()),
      "' is none of the samples' devices: ", Escaped(absl::StrJoin(devices, ", ")), "; name one"));
}

}  // namespace

absl::StatusOr<v1::CalibrateResponse> Calibrated(const v1::CalibrateRequest& request) {
  EBB_RETURN_IF_ERROR(CheckKnown(request));
  EBB_RETURN_IF_ERROR(CheckCount("least_runs", request.least_runs(), 0, 1'000'000));
  const auto hardware = perfmodel::FindHardware(request.hardware());
  if (!hardware.ok()) return Annotate(hardware.status(), "hardware");
  if (request.samples().size() > kMostText) {
    return absl::InvalidArgumentError(
        absl::StrCat("samples has ", request.samples().size(), " bytes; at most ", kMostText));
  }
  EBB_ASSIGN_OR_RETURN(const std::vector<OpSample> samples,
                       perfmodel::ReadSamples(request.samples(), "samples"));
  if (samples.empty()) return absl::InvalidArgumentError("samples: there are none");
  if (samples.size() > kMostSamples) {
    return absl::InvalidArgumentError(absl::StrCat("samples: there are ", samples.size(),
                                                   "; at most ", kMostSamples,
                                                   " in one request: leave some steps out"));
  }
  EBB_ASSIGN_OR_RETURN(const std::string device, DeviceOf(request, samples));
  EBB_ASSIGN_OR_RETURN(const perfmodel::Calibration calibration,
                       perfmodel::Calibrate(*hardware, samples, device,
                                            request.least_runs() > 0 ? request.least_runs() : 5));
  v1::CalibrateResponse response;
  response.set_model(calibration.model.Save());
  for (const perfmodel::LawReport& law : calibration.laws) {
    v1::CalibrateResponse::Law* wire = response.add_laws();
    wire->set_family(std::string(perfmodel::Name(law.family)));
    wire->set_dtype(std::string(graph::Name(law.dtype)));
    wire->set_kernels(law.samples);
    wire->set_fitted(law.fitted);
    wire->set_mape(law.mape);
  }
  return response;
}

}  // namespace ebb::daemon
