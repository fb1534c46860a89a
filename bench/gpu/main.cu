// gpu_measure SECTION: what the calls and the overlaps of this machine's GPU cost, one figure of
// JSON a line, each as soon as it is known. Needs the driver alone.
#include <cstring>

#include "bench/gpu/measure.h"

namespace ebb::bench::gpu {
namespace {

struct Section {
  const char* name;
  void (*measure)();
};
constexpr Section kSections[] = {{"calls", MeasureCalls},
                                 {"overlap", MeasureOverlap},
                                 {"copies", MeasureCopies},
                                 {"mapping", MeasureMapping},
                                 {"faults", MeasureFaults}};

int Main(int argc, char** argv) {
  for (const Section& section : kSections) {
    if (argc != 2 || std::strcmp(argv[1], section.name) != 0) continue;
    int gpus = 0;
    EBB_CUDA_CHECK(cudaGetDeviceCount(&gpus));
    EBB_CUDA_CHECK(cudaSetDevice(0));
    EBB_CUDA_CHECK(cudaFree(nullptr));  // makes the context
    section.measure();
    EBB_CUDA_CHECK(cudaDeviceSynchronize());
    return 0;
  }
  std::fprintf(stderr, "usage: gpu_measure SECTION, one of");
  for (const Section& section : kSections) std::fprintf(stderr, " %s", section.name);
  std::fprintf(stderr, "\n");
  return 2;
}

}  // namespace
}  // namespace ebb::bench::gpu

int main(int argc, char** argv) { return ebb::bench::gpu::Main(argc, argv); }
