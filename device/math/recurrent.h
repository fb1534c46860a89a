// One hidden unit of Lstm and Gru at one step, forward and backward.
#pragma once

#include "device/math/scalar.h"

namespace ebb::device::math {

struct LstmUnit {
  float i, o, f, c;  // the gates
  float cell, y;

  // From the gates before their functions, and the cell of the step before.
  static EBB_INLINE LstmUnit Of(float i, float o, float f, float c, float before) {
    LstmUnit unit = {Sigmoid(i), Sigmoid(o), Sigmoid(f), Tanh(c), 0, 0};
    unit.cell = unit.f * before + unit.i * unit.c;
    unit.y = unit.o * Tanh(unit.cell);
    return unit;
  }
};

struct LstmSlopes {
  float i, o, f, c;  // of the gates before their functions
  float before;      // of the cell of the step before

  // From the gates, the cells of this step and of the one before, dy + dh of y, and what comes to
  // the cell from elsewhere.
  static EBB_INLINE LstmSlopes Of(float i, float o, float f, float c, float cell, float before,
                                  float d, float dcell) {
    const float t = Tanh(cell);
    const float state = dcell + d * o * (1.0f - t * t);
    return {state * c * i * (1.0f - i), d * t * o * (1.0f - o), state * before * f * (1.0f - f),
            state * i * (1.0f - c * c), state * f};
  }
};

// The candidate c and the output of a Gru.
struct GruUnit {
  float c, y;
  static EBB_INLINE GruUnit Of(float z, float candidate, float before) {
    const float c = Tanh(candidate);
    return {c, (1.0f - z) * c + z * before};
  }
};

// Of z and of the candidate before their functions, and what goes to the state before directly.
struct GruSlopes {
  float z, c, before;
  static EBB_INLINE GruSlopes Of(float z, float c, float before, float d) {
    return {d * (before - c) * z * (1.0f - z), d * (1.0f - z) * (1.0f - c * c), d * z};
  }
};

// Of the reset gate r before its function, where it has multiplied `factor`.
EBB_INLINE float ResetSlope(float r, float factor, float d) { return d * factor * r * (1.0f - r); }

}  // namespace ebb::device::math
