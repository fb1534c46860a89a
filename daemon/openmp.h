// How the threads of one sub-model wait for each other when nobody has said it.
#pragma once

namespace ebb::daemon {

// GNU OpenMP lets waiting threads spin for milliseconds, which wastes the processor as soon as
// anything else runs on the machine. Unless OMP_WAIT_POLICY or GOMP_SPINCOUNT is set, this sets
// GOMP_SPINCOUNT and starts the program anew, once, as the same process: OpenMP reads it when it is
// loaded, before main. Called first in main: nothing may have been read, opened or started. It
// returns when the variables are as they should be, or with a warning when the program could not be
// started anew.
void LimitOpenMpSpinning(char** argv);

}  // namespace ebb::daemon
