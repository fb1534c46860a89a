// `ebb predict --gpus`: how long training would take on other GPUs.
#pragma once

#include <vector>

#include "client/cli/commands.h"

namespace ebb::cli {

// The flags that go with --gpus alone.
std::vector<Flag> PredictTrainingFlags();
// The whole command, once --gpus is there.
int PredictTraining(const Context& context);

}  // namespace ebb::cli
