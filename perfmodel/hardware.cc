#include "perfmodel/hardware.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"

namespace ebb::perfmodel {

using graph::DType;

double Hardware::product_flops_per_us(DType dtype) const {
  const bool low = dtype == DType::kF16 || (dtype == DType::kBF16 && bf16);
  return (low && half_tflops > 0 ? half_tflops : fp32_tflops) * 1e6;
}

const std::vector<Hardware>& KnownHardware() {
  // key, name, SMs, fp32, tf32, half, GB/s, L2, memory, link, bus, bf16
  static const auto* const table = new std::vector<Hardware>{
      {"a100-40gb", "NVIDIA A100-SXM4-40GB", 108, 19.5, 156, 312, 1555, 40, 40, 300, 32},
      {"a100-80gb", "NVIDIA A100-SXM4-80GB", 108, 19.5, 156, 312, 2039, 40, 80, 300, 32},
      {"a100-pcie-40gb", "NVIDIA A100-PCIE-40GB", 108, 19.5, 156, 312, 1555, 40, 40, 0, 32},
      {"a100-pcie-80gb", "NVIDIA A100 80GB PCIe", 108, 19.5, 156, 312, 1935, 40, 80, 0, 32},
      {"h100-80gb", "NVIDIA H100 80GB HBM3", 132, 66.9, 494.7, 989.4, 3352, 50, 80, 450, 64},
      {"h200-141gb", "NVIDIA H200", 132, 66.9, 494.7, 989.4, 4800, 50, 141, 450, 64},
      {"l4-24gb", "NVIDIA L4", 58, 30.3, 60, 121, 300, 48, 24, 0, 32},
      {"p100-16gb", "Tesla P100-PCIE-16GB", 56, 9.3, 0, 0, 732, 4, 16, 0, 16},
      {"p4-8gb", "Tesla P4", 20, 5.5, 0, 0, 192, 2, 8, 0, 16},
      {"t4-16gb", "Tesla T4", 40, 8.1, 0, 65, 320, 4, 16, 0, 16, false},
      {"v100-16gb", "Tesla V100-SXM2-16GB", 80, 15.7, 0, 125, 900, 6, 16, 150, 16, false},
      {"v100-32gb", "Tesla V100-PCIE-32GB", 80, 14, 0, 112, 900, 6, 32, 0, 16, false},
  };
  return *table;
}

absl::StatusOr<Hardware> FindHardware(absl::string_view name) {
  const std::string wanted = absl::AsciiStrToLower(name);
  for (const Hardware& one : KnownHardware()) {
    if (one.key == wanted || absl::AsciiStrToLower(one.name) == wanted) return one;
  }
  return absl::NotFoundError(absl::StrCat(
      "no hardware '", Escaped(name), "'; there are ",
      absl::StrJoin(KnownHardware(), ", ",
                    [](std::string* out, const Hardware& one) { absl::StrAppend(out, one.key); })));
}

}  // namespace ebb::perfmodel
