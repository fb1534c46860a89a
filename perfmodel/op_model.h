// Times of kernels on one device: laws fitted to what was measured, the data sheet for the rest.
// Immutable, may be asked from any thread.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "perfmodel/op_law.h"
#include "perfmodel/predictor.h"

namespace ebb::perfmodel {

class OpModel : public OpPredictor {
 public:
  using Laws = std::map<std::pair<Family, graph::DType>, OpLaw>;

  // Without laws: the data sheet alone. All figures of `hardware` that laws need (multiprocessors,
  // FLOP/s, bandwidth) must be above 0.
  static absl::StatusOr<OpModel> Make(Hardware hardware, Laws laws = {});

  // Work without a law of its family and type is answered from the data sheet, with a wide interval
  // and a source that says so. Unimplemented: the device has no peak for work of this kind.
  absl::StatusOr<Estimate> Predict(const Work& work) const override;

  const Hardware& hardware() const { return hardware_; }
  const Laws& laws() const { return laws_; }

  // A text of JSON; a model that was read predicts the same bits. InvalidArgument: damaged, of
  // another version, or not a model.
  std::string Save() const;
  static absl::StatusOr<OpModel> Load(absl::string_view text, absl::string_view source);

 private:
  OpModel(Hardware hardware, Laws laws) : hardware_(std::move(hardware)), laws_(std::move(laws)) {}

  Hardware hardware_;
  Laws laws_;
};

}  // namespace ebb::perfmodel
