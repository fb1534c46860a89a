// From a job that trains to one that predicts with the same model. Stateless.
#pragma once

#include "ebb/v1/job.pb.h"

namespace ebb::client {

// Keeps the model, how its data are read (validation's, else training's), bindings, batch and
// resources; drops what is for training. The outputs and the weights are the caller's to set.
v1::JobSpec PredictionOf(const v1::JobSpec& trains);

}  // namespace ebb::client
