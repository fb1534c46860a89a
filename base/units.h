// Units as types, so that bytes, microseconds and operation counts cannot be swapped by accident.
// Values are immutable and may be shared between threads.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "absl/strings/string_view.h"

namespace ebb {

template <class Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(int64_t count) : count_(count) {}
  constexpr int64_t count() const { return count_; }

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator-() const { return Quantity(-count_); }
  constexpr Quantity& operator+=(Quantity other) { return count_ += other.count_, *this; }
  constexpr Quantity& operator-=(Quantity other) { return count_ -= other.count_, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity a, int64_t n) { return Quantity(a.count_ * n); }
  friend constexpr Quantity operator*(int64_t n, Quantity a) { return a * n; }
  friend constexpr Quantity operator/(Quantity a, int64_t n) { return Quantity(a.count_ / n); }
  // The ratio of two quantities is a plain number.
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.count_) / static_cast<double>(b.count_);
  }
  template <class H>
  friend H AbslHashValue(H h, Quantity q) {
    return H::combine(std::move(h), q.count_);
  }

 private:
  int64_t count_ = 0;
};

using Bytes = Quantity<struct BytesTag>;
using Micros = Quantity<struct MicrosTag>;
using Flops = Quantity<struct FlopsTag>;

constexpr Bytes KiB(int64_t n) { return Bytes(n << 10); }
constexpr Bytes MiB(int64_t n) { return Bytes(n << 20); }
constexpr Bytes GiB(int64_t n) { return Bytes(n << 30); }

// The smallest multiple of `alignment` (> 0) that is at least `bytes` (>= 0).
constexpr Bytes AlignUp(Bytes bytes, Bytes alignment) {
  return Bytes((bytes.count() + alignment.count() - 1) / alignment.count() * alignment.count());
}

// "3.1 GiB", "812 B".
std::string FormatBytes(Bytes bytes);
// "4GiB", "1.5 GB", "512k" (= KiB), "4096". Not negative; nullopt if it is no size or does not fit.
std::optional<Bytes> ParseBytes(absl::string_view text);

std::ostream& operator<<(std::ostream& os, Bytes bytes);
std::ostream& operator<<(std::ostream& os, Micros micros);

}  // namespace ebb
