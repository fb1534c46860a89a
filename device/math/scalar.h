// Functions of one float that every device computes by the same formulas: vectorised by the
// compiler on the host, and device functions where nvcc compiles them.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#if defined(__CUDACC__)
#define EBB_INLINE __host__ __device__ __forceinline__
#define EBB_NO_UNROLL _Pragma("unroll 1")
#else
#define EBB_NO_UNROLL _Pragma("GCC unroll 1")
#define EBB_INLINE inline __attribute__((always_inline))
#endif

namespace ebb::device {

// e^x to 2 ulp: Cody-Waite reduction and the Cephes polynomial. Overflows to infinity, underflows
// to denormals and zero, keeps NaN.
EBB_INLINE float Exp(float x) {
  x = x > 90.0f ? 90.0f : x;
  x = x < -105.0f ? -105.0f : x;
  const float n = (x * 1.44269504088896341f + 12582912.0f) - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = (p * (r * r) + r) + 1.0f;
  const int32_t i = static_cast<int32_t>(n == n ? n : 0.0f);
  const int32_t half = i >> 1;  // in two steps: 2^n alone may be out of range
  const float scale_a = std::bit_cast<float>((half + 127) << 23);
  const float scale_b = std::bit_cast<float>((i - half + 127) << 23);
  return y * scale_a * scale_b;
}

EBB_INLINE float Sigmoid(float x) { return 1.0f / (1.0f + Exp(-x)); }

// Rational minimax approximations (as in Eigen), a few ulp.
EBB_INLINE float Tanh(float x) {
  const float limit = 7.90531110763549805f;
  const float c = x > limit ? limit : (x < -limit ? -limit : x);
  const float s = c * c;
  float p = -2.76076847742355e-16f;
  p = p * s + 2.00018790482477e-13f;
  p = p * s + -8.60467152213735e-11f;
  p = p * s + 5.12229709037114e-08f;
  p = p * s + 1.48572235717979e-05f;
  p = p * s + 6.37261928875436e-04f;
  p = p * s + 4.89352455891786e-03f;
  float q = 1.19825839466702e-06f;
  q = q * s + 1.18534705686654e-04f;
  q = q * s + 2.26843463243900e-03f;
  q = q * s + 4.89352518554385e-03f;
  const float big = c * p / q;
  return std::fabs(x) < 0.0004f ? x : big;
}

EBB_INLINE float Erf(float x) {
  const float c = x > 4.0f ? 4.0f : (x < -4.0f ? -4.0f : x);
  const float s = c * c;
  float p = -2.72614225801306e-10f;
  p = p * s + 2.77068142495902e-08f;
  p = p * s + -2.10102402082508e-06f;
  p = p * s + -5.69250639462346e-05f;
  p = p * s + -7.34990630326855e-04f;
  p = p * s + -2.95459980854025e-03f;
  p = p * s + -1.60960333262415e-02f;
  float q = -1.45660718464996e-05f;
  q = q * s + -2.13374055278905e-04f;
  q = q * s + -1.68282697438203e-03f;
  q = q * s + -7.37332916720468e-03f;
  q = q * s + -1.42647390514189e-02f;
  return c * p / q;
}

}  // namespace ebb::device
