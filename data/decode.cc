// Byte order, widening, and the check that an array's declared size is its real one.
#include "data/decode.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace ebb::data {
namespace {

using graph::DType;
using graph::HostTensor;

static_assert(std::endian::native == std::endian::little, "element decoding assumes little-endian");

template <class T>
T Load(const char* bytes, ByteOrder order) {
  char copy[sizeof(T)];
  std::memcpy(copy, bytes, sizeof(T));
  if (order == ByteOrder::kBig) std::reverse(copy, copy + sizeof(T));
  T value;
  std::memcpy(&value, copy, sizeof(T));
  return value;
}

// IEEE 754 binary16.
float HalfToFloat(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int fraction = half & 1023;
  float value = 0;
  if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else if (exponent < 31) {
    value = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  } else {
    value = fraction == 0 ? std::numeric_limits<float>::infinity()
                          : std::numeric_limits<float>::quiet_NaN();
  }
  return (half & 0x8000) ? -value : value;
}

struct Half {
  uint16_t bits;
};
template <class To, class From>
To Widen(From value) {
  return static_cast<To>(value);
}
template <>
float Widen<float, Half>(Half value) {
  return HalfToFloat(value.bits);
}

template <class From, class To>
void Convert(absl::string_view payload, ByteOrder order, HostTensor* out) {
  To* to = out->as<To>().data();
  const size_t count = payload.size() / sizeof(From);
  for (size_t i = 0; i < count; ++i) {
    to[i] = Widen<To>(Load<From>(payload.data() + i * sizeof(From), order));
  }
}

using Converter = void (*)(absl::string_view, ByteOrder, HostTensor*);
struct Rule {
  char kind;
  int bytes;
  DType dtype;
  Converter convert;
};
void ConvertBool(absl::string_view payload, ByteOrder, HostTensor* out) {
  for (size_t i = 0; i < payload.size(); ++i) out->data[i] = std::byte(payload[i] != 0);
}
constexpr Rule kRules[] = {
    {'f', 2, DType::kF32, Convert<Half, float>},
    {'f', 4, DType::kF32, Convert<float, float>},
    {'f', 8, DType::kF64, Convert<double, double>},
    {'i', 1, DType::kI32, Convert<int8_t, int32_t>},
    {'i', 2, DType::kI32, Convert<int16_t, int32_t>},
    {'i', 4, DType::kI32, Convert<int32_t, int32_t>},
    {'i', 8, DType::kI64, Convert<int64_t, int64_t>},
    {'u', 1, DType::kU8, Convert<uint8_t, uint8_t>},
    {'u', 2, DType::kI32, Convert<uint16_t, int32_t>},
    {'u', 4, DType::kI64, Convert<uint32_t, int64_t>},
    {'b', 1, DType::kBool, ConvertBool},
};

const Rule* FindRule(RawElement element) {
  for (const Rule& rule : kRules) {
    if (rule.kind == element.kind && rule.bytes == element.bytes) return &rule;
  }
  return nullptr;
}

// nullopt when it does not fit 63 bits.
std::optional<int64_t> ByteCount(const graph::Shape& shape, int64_t element_bytes) {
  int64_t total = element_bytes;
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim == 0) empty = true;
    if (dim > 0 && __builtin_mul_overflow(total, dim, &total)) return std::nullopt;
  }
  return empty ? 0 : total;
}

}  // namespace

absl::Status CheckPayload(RawElement element, const graph::Shape& shape, size_t payload_bytes) {
  const std::optional<int64_t> needed = ByteCount(shape, element.bytes);
  if (needed && static_cast<uint64_t>(*needed) == payload_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the header says shape ", graph::ToString(shape), " of ", element.bytes, "-byte elements",
      needed ? absl::StrCat(" = ", *needed, " bytes") : std::string(", more than can exist"),
      ", but ", payload_bytes, " bytes follow; the file is damaged or cut short"));
}

absl::StatusOr<HostTensor> DecodeArray(RawElement element, const graph::Shape& shape,
                                       absl::string_view payload) {
  const Rule* rule = FindRule(element);
  if (rule == nullptr) {
    return absl::UnimplementedError(absl::StrCat(
        "element type ", std::string(1, element.kind), element.bytes,
        " is not supported; convert the array to float32, float64, int32, int64, uint8 or bool"));
  }
  EBB_RETURN_IF_ERROR(CheckPayload(element, shape, payload.size()));
  const graph::TensorType type{rule->dtype, shape};
  HostTensor out{type, std::vector<std::byte>(static_cast<size_t>(type.bytes().count()))};
  if (payload.empty()) return out;
  if (element.order == ByteOrder::kLittle && payload.size() == out.data.size() &&
      rule->dtype != DType::kBool) {
    std::memcpy(out.data.data(), payload.data(), payload.size());
  } else {
    rule->convert(payload, element.order, &out);
  }
  return out;
}

std::string Quoted(absl::string_view text) {
  constexpr size_t kMost = 40;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kMost)),
                      text.size() > kMost ? "..." : "", "\"");
}

}  // namespace ebb::data
