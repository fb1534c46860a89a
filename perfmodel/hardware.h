// GPUs as their data sheets describe them: what a prediction starts from when nothing was measured.
// Plain data; the built-in table is immutable.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/units.h"
#include "graph/types.h"

namespace ebb::perfmodel {

struct Hardware {
  std::string key;   // "a100-80gb"
  std::string name;  // "NVIDIA A100-SXM4-80GB"
  double multiprocessors = 0;
  double fp32_tflops = 0;    // without tensor cores
  double tf32_tflops = 0;    // dense, by tensor cores; 0: has none
  double half_tflops = 0;    // fp16 products, dense, and bf16 ones where `bf16`; 0: no tensor cores
  double bandwidth_gbs = 0;  // of device memory, 1e9 bytes a second
  double l2_mib = 0;
  double memory_gib = 0;
  double link_gbs = 0;  // NVLink to its peers, one way; 0: none
  double bus_gbs = 0;   // PCIe to the host, one way
  bool bf16 = true;     // tensor cores take bf16; else it is computed as fp32 is

  double bytes_per_us() const { return bandwidth_gbs * 1e3; }
  // Of products (matrix, convolution) of operands of `dtype`, and of all other arithmetic.
  double product_flops_per_us(graph::DType dtype) const;
  double vector_flops_per_us() const { return fp32_tflops * 1e6; }
};

// The table, sorted by key. Figures are those of NVIDIA's data sheets (dense rates).
const std::vector<Hardware>& KnownHardware();
// By key or by name as the driver says it. NotFound lists the keys.
absl::StatusOr<Hardware> FindHardware(absl::string_view name);

}  // namespace ebb::perfmodel
