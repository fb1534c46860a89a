// What a device is, in numbers that planning and cost models need.
#pragma once

#include <string>

#include "base/units.h"

namespace ebb {

struct DeviceSpec {
  std::string kind;     // "cpu", "cuda", "sim", "ref"
  std::string name;     // the hardware's own name
  Bytes memory;         // of the device: what a pool may take
  Bytes granule;        // unit in which memory is mapped
  Bytes alignment;      // every tensor starts at a multiple of this
  int parallelism = 1;  // steps that can really execute at once (cores / threads a stream, ...)
  int threads_per_stream = 1;
  double peak_flops = 0;      // fp32 floating-point operations per second; 0 if unknown
  double peak_bandwidth = 0;  // bytes per second; 0 if unknown
  double bus_bandwidth = 0;   // between its memory and the host's, each way; 0 if unknown
  bool computes = true;       // false: values do not exist, only sizes and times (sim)
  bool host_memory = true;    // the pool is host memory; else what is staged crosses a bus

  // Of a simulated device; empty elsewhere. Every figure it gives is meant together with these.
  std::string profile;           // "v100-16gb"
  std::string overlap_model;     // "slots" or "vector"
  std::string constants_sha256;  // of the text that its constants come from
};

}  // namespace ebb
