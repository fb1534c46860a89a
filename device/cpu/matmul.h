// The matrix product behind every kernel that needs one: oneDNN's sgemm, or loops of our own for
// matrices too small for it. Any thread may call.
#pragma once

#include "absl/status/status.h"
#include "device/cpu/onednn.h"

namespace ebb::device::cpu {

// Sgemm() for all sizes, 0 included; which way it goes depends on the sizes only.
absl::Status Multiply(const GemmSpec& spec, float alpha, const float* a, const float* b, float beta,
                      float* c);

}  // namespace ebb::device::cpu
