// What the files of cases share: how operands are written, and one function a family of ops.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/device/cpu_cases.h"

namespace ebb::testing {

using Ints = std::vector<int64_t>;
using Shape = Ints;
using Cases = std::vector<OpCase>;

inline CaseInput Of(graph::DType dtype, const Shape& shape, double min, double max) {
  CaseInput input;
  input.type.dtype = dtype;
  input.type.shape.assign(shape.begin(), shape.end());
  input.min = min;
  input.max = max;
  return input;
}
inline CaseInput F(const Shape& shape, double min = -1, double max = 1) {
  return Of(graph::DType::kF32, shape, min, max);
}
inline CaseInput Absent() {
  CaseInput input;
  input.absent = true;
  return input;
}

void Matmul(Cases& cases);
void Conv(Cases& cases);
void Pool(Cases& cases);
void Norm(Cases& cases);
void Recurrent(Cases& cases);
void EmbeddingBags(Cases& cases);
void Indices(Cases& cases);

}  // namespace ebb::testing
