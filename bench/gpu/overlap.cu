// What two streams gain: pairs of kernels together, against one after the other.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bench/gpu/gemm.h"
#include "bench/gpu/measure.h"

namespace ebb::bench::gpu {
namespace {

constexpr double kSpan = 4000;      // microseconds that each side of a pair takes alone
constexpr int kMostLaunches = 400;  // of a side: they are enqueued while the gate is closed
constexpr size_t kSmall = size_t{64} << 10, kLarge = size_t{64} << 20;  // floats

struct Kind {
  std::string name;
  std::function<void(cudaStream_t stream, int side)> launch;
  int launches = 1;
  double micros = 0;  // of that many, alone
};

double Alone(const Kind& kind, int launches) {
  return GatedMicros([&](cudaStream_t stream, cudaStream_t) {
    for (int i = 0; i < launches; ++i) kind.launch(stream, 0);
  });
}

// How many launches fill the span, and what they take.
void Calibrate(Kind* kind) {
  Alone(*kind, 3);
  const double one = std::max(Alone(*kind, 10) / 10, 0.1);
  kind->launches = std::clamp(static_cast<int>(kSpan / one), 1, kMostLaunches);
  kind->micros = Alone(*kind, kind->launches);
}

double Together(const Kind& a, const Kind& b) {
  return GatedMicros([&](cudaStream_t first, cudaStream_t second) {
    // In turns, in proportion: neither is enqueued long before the other.
    for (int i = 0, j = 0; i < a.launches || j < b.launches;) {
      if (j >= b.launches || (i < a.launches && static_cast<int64_t>(i) * b.launches <=
                                                    static_cast<int64_t>(j) * a.launches)) {
        a.launch(first, 0);
        ++i;
      } else {
        b.launch(second, 1);
        ++j;
      }
    }
  });
}

double Median(double a, double b, double c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

}  // namespace

void MeasureOverlap() {
  const int sms = Multiprocessors();
  const DeviceBytes memory[2] = {DeviceBytes(kLarge * 4), DeviceBytes(kLarge * 4)};
  const auto scale = [&](int blocks, size_t elements) {
    return [&memory, blocks, elements](cudaStream_t stream, int side) {
      LaunchScale(stream, blocks, memory[side].as<float>(), elements);
    };
  };
  const auto fma = [&](int blocks) {
    return [&memory, blocks](cudaStream_t stream, int side) {
      LaunchFma(stream, blocks, memory[side].as<float>(), 4000);
    };
  };
  std::vector<Kind> kinds = {
      {"small", scale(std::max(sms / 2, 1), kSmall)},  // elementwise, bound by its launch
      {"bandwidth", scale(sms * 8, kLarge)},           // all of the card
      {"bandwidth_quarter", scale(std::max(sms / 4, 1), kLarge)},
      {"compute", fma(sms * 8)},
      {"compute_quarter", fma(std::max(sms / 4, 1))}};
  std::string why;
  std::vector<std::unique_ptr<Gemm>> gemms;
  for (int side = 0; side < 2; ++side) {
    if (auto gemm = OpenGemm(2048, &why)) gemms.push_back(std::move(gemm));
  }
  if (gemms.size() == 2) {
    kinds.push_back({"gemm", [&gemms](cudaStream_t stream, int side) {
                       gemms[static_cast<size_t>(side)]->Launch(stream);
                     }});
  } else {
    SayAbsent("gemm", why);
  }
  for (Kind& kind : kinds) {
    Calibrate(&kind);
    Say("alone_us/" + kind.name, kind.micros / kind.launches);
    Say("launches/" + kind.name, kind.launches);
  }
  Say("bandwidth_GB_s", 2.0 * kLarge * 4 * kinds[1].launches / kinds[1].micros / 1e3);
  if (gemms.size() == 2) {
    Say("gemm_TFLOP_s", gemms[0]->flops() * kinds.back().launches / kinds.back().micros / 1e6);
  }
  for (size_t i = 0; i < kinds.size(); ++i) {
    for (size_t j = i; j < kinds.size(); ++j) {
      const Kind &a = kinds[i], &b = kinds[j];
      const double both = Median(Together(a, b), Together(a, b), Together(a, b));
      // Over the sum of both alone: 1 is nothing gained, 0.5 all that can be of equal sides.
      Say("together/" + a.name + "+" + b.name, both / (a.micros + b.micros));
      // Of the shorter side, how much was hidden behind the longer.
      Say("hidden/" + a.name + "+" + b.name,
          (a.micros + b.micros - both) / std::min(a.micros, b.micros));
    }
  }
}

}  // namespace ebb::bench::gpu
