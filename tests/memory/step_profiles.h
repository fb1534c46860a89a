// Live ranges as training steps have them: forward nodes leave tensors behind, backward nodes take
// them up in reverse order. Shared by the tests of memory and scheduler. Same seed, same ranges.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "memory/stack_plan.h"

namespace ebb::memory {

struct StepRanges {
  std::vector<LiveRange> ranges;
  int num_steps = 0;
};

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  // Uniform in [low, high].
  int64_t operator()(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Chance(int percent) { return (*this)(0, 99) < percent; }

 private:
  std::mt19937_64 engine_;
};

// `layers` layers, one forward and one backward node each, a loss node between. Layer i's output is
// read by the next layer and both layers' backward nodes.
inline StepRanges Chain(int layers, Dice& dice, int64_t unit) {
  StepRanges step;
  step.num_steps = 2 * layers + 1;
  const auto backward = [&](int layer) { return 2 * layers - layer; };
  for (int i = 0; i < layers; ++i) {
    // Feature maps shrink with depth.
    const int64_t size = unit * dice(2, 8) * (layers - i + layers / 2) / layers;
    step.ranges.push_back({Bytes(size), i, dice.Chance(70) ? backward(i) : backward(i + 1)});
    if (dice.Chance(50)) step.ranges.push_back({Bytes(size / 2), i, i});            // workspace
    if (dice.Chance(30)) step.ranges.push_back({Bytes(size / 4), i, backward(i)});  // mask
    step.ranges.push_back({Bytes(size), backward(i + 1), backward(i)});  // gradient of the output
    step.ranges.push_back({Bytes(unit * dice(1, 4) / 4), backward(i), backward(i)});  // of weights
    if (dice.Chance(50)) step.ranges.push_back({Bytes(size / 2), backward(i), backward(i)});
  }
  return step;
}

// Blocks of three layers with a skip around them: the block's input and its gradient live longer.
inline StepRanges Residual(int blocks, Dice& dice, int64_t unit) {
  const int layers = 3 * blocks;
  StepRanges step;
  step.num_steps = 2 * layers + 1;
  const auto backward = [&](int layer) { return 2 * layers - layer; };
  for (int b = 0; b < blocks; ++b) {
    const int64_t size = unit * (b < blocks / 2 ? 4 : 2);
    for (int i = 3 * b; i < 3 * b + 3; ++i) {
      const int64_t inner = i == 3 * b + 2 ? size : size / 2;
      step.ranges.push_back({Bytes(inner), i, backward(i)});
      step.ranges.push_back({Bytes(inner), i, backward(i)});  // input of the normalisation
      step.ranges.push_back({Bytes(inner), backward(i + 1), backward(i)});
      step.ranges.push_back({Bytes(unit / 3 * dice(1, 3)), backward(i), backward(i)});
      step.ranges.push_back({Bytes(unit / 5 * dice(0, 6)), i, i});
      step.ranges.push_back({Bytes(unit / 5 * dice(0, 6)), backward(i), backward(i)});
    }
    step.ranges.push_back({Bytes(size), backward(3 * b + 3), backward(3 * b)});  // through the skip
  }
  return step;
}

// Blocks of layers that read all features of their block; concatenations are copies that are saved.
inline StepRanges DenseConcat(int blocks, int width, Dice& dice, int64_t unit) {
  const int layers = blocks * width;
  StepRanges step;
  step.num_steps = 2 * layers + 1;
  const auto backward = [&](int layer) { return 2 * layers - layer; };
  for (int i = 0; i < layers; ++i) {
    const int first = i / width * width;
    const int end = first + width - 1;  // last reader of the block's features
    const int64_t growth = unit * dice(2, 3);
    step.ranges.push_back({Bytes(growth), i, end});                            // feature
    step.ranges.push_back({Bytes(growth * (i - first + 1)), i, backward(i)});  // concatenation
    step.ranges.push_back({Bytes(growth * 4), i, backward(i)});                // bottleneck
    step.ranges.push_back({Bytes(growth), backward(end), backward(i)});  // its gradient adds up
    step.ranges.push_back({Bytes(growth * (i - first + 1)), backward(i), backward(i)});
    step.ranges.push_back({Bytes(growth * 4), backward(i), backward(i)});
  }
  return step;
}

// No structure at all.
inline StepRanges Arbitrary(int num_steps, int count, Dice& dice, int64_t unit) {
  StepRanges step;
  step.num_steps = num_steps;
  for (int i = 0; i < count; ++i) {
    const int first = static_cast<int>(dice(0, num_steps - 1));
    const int last = static_cast<int>(dice(first, num_steps - 1));
    step.ranges.push_back({Bytes(dice(0, 4 * unit)), first, last});
  }
  return step;
}

}  // namespace ebb::memory
