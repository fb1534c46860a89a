// What answers "how long": for one kernel, for one collective. Implementations are immutable and
// may be asked from any thread.
#pragma once

#include "absl/status/statusor.h"
#include "perfmodel/collective.h"
#include "perfmodel/estimate.h"
#include "perfmodel/work.h"

namespace ebb::perfmodel {

class OpPredictor {
 public:
  virtual ~OpPredictor() = default;
  // Of the kernel alone on its device, without what its launch costs the host. Unimplemented where
  // no model covers the family: an unknown kernel is never free. 0 for no work.
  virtual absl::StatusOr<Estimate> Predict(const Work& work) const = 0;
};

class CollectivePredictor {
 public:
  virtual ~CollectivePredictor() = default;
  // From the instant when the last rank has come. 0 for one rank. Unimplemented, with what to
  // import, where nothing is known of the kind or number of ranks.
  virtual absl::StatusOr<Estimate> Predict(const Collective& collective) const = 0;
};

}  // namespace ebb::perfmodel
