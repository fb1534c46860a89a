// Collectives measured by the programs of nccl-tests on the GPUs of this machine. Free functions;
// they run programs and wait for them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "perfmodel/curve.h"

namespace ebb::cli {

struct NcclTests {
  std::string directory;      // of the programs; "": those of $PATH
  std::vector<int64_t> gpus;  // a sweep with each of these numbers of GPUs
  std::string least = "8",
              most = "1G";  // sizes, as nccl-tests take them; doubled from step to step
};

// GPUs that NVIDIA's driver shows as devices.
int64_t GpusHere();

// 2, 4, 8, ... up to `gpus`, and `gpus`; empty below 2.
std::vector<int64_t> Sweeps(int64_t gpus);

// One curve for each program that is found and each number of GPUs. `say` hears what runs and what
// is left out. NotFound: none of the programs; Internal: one failed, or printed what cannot be
// read.
absl::StatusOr<std::vector<perfmodel::Curve>> MeasureCurves(
    const NcclTests& tests, const std::function<void(const std::string&)>& say);

}  // namespace ebb::cli
