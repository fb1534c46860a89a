// What a kernel's time is made of, by physics: terms whose non-negative sum is the base of a law,
// numbers that explain what the base misses, and what a data sheet alone says. Pure.
#pragma once

#include <vector>

#include "perfmodel/hardware.h"
#include "perfmodel/work.h"

namespace ebb::perfmodel {

// kShort: a constant, FLOPs at the peak, bytes at the bandwidth. kLong: for products the bytes of
// each operand by itself (narrow products are less efficient) and whole waves of tiles of four
// sizes, their FLOPs and results; for others bytes beyond the L2 cache and rows. In microseconds,
// were everything at its peak.
enum class Terms : uint8_t { kShort, kLong };
std::vector<double> TermsOf(const Work& work, const Hardware& hardware, Terms terms);

// Logarithms of sizes, FLOPs, bytes and intensity; for products quantisation and padding by tiles,
// alignment (greatest common divisors with 64). Of equal length for all work.
std::vector<double> FeaturesOf(const Work& work, const Hardware& hardware);

// Where the work lies: logarithms of its sizes, and half the base-2 logarithms of how they are
// aligned, so that a class of alignment that was never measured is far from all that was.
std::vector<double> PlaceOf(const Work& work);

// The least time at these rates.
struct Rates {
  double flops_per_us = 0;
  double bytes_per_us = 0;
};
Rates PeakOf(const Work& work, const Hardware& hardware);
double Roofline(const Work& work, const Rates& peak);

// A launch and what whole waves of tiles leave of the roofline, at three quarters of the peaks.
double DataSheetTime(const Work& work, const Hardware& hardware);

}  // namespace ebb::perfmodel
