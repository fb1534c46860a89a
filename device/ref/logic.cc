// Comparisons and logic: a byte of 0 or 1 an element.
#include "device/ref/common.h"
#include "device/ref/kernels.h"

namespace ebb::device::ref {
namespace {

absl::StatusOr<Kernel> Equal(const Graph& g, const Node& n) {
  const auto body = BroadcastBody<uint8_t>(g, n, [](auto a, auto b) { return a == b; });
  const DType dtype = InType(g, n, 0).dtype;
  if (dtype == DType::kU8 || dtype == DType::kBool) return KernelOf<uint8_t>(body);
  return ForNumber(dtype, body);
}
absl::StatusOr<Kernel> Less(const Graph& g, const Node& n) {
  return ForNumber(InType(g, n, 0).dtype,
                   BroadcastBody<uint8_t>(g, n, [](auto a, auto b) { return a < b; }));
}
absl::StatusOr<Kernel> LessEqual(const Graph& g, const Node& n) {
  return ForNumber(InType(g, n, 0).dtype,
                   BroadcastBody<uint8_t>(g, n, [](auto a, auto b) { return a <= b; }));
}
absl::StatusOr<Kernel> And(const Graph& g, const Node& n) {
  return KernelOf<uint8_t>(
      BroadcastBody<uint8_t>(g, n, [](auto a, auto b) { return a != 0 && b != 0; }));
}
absl::StatusOr<Kernel> Or(const Graph& g, const Node& n) {
  return KernelOf<uint8_t>(
      BroadcastBody<uint8_t>(g, n, [](auto a, auto b) { return a != 0 || b != 0; }));
}
absl::StatusOr<Kernel> Xor(const Graph& g, const Node& n) {
  return KernelOf<uint8_t>(
      BroadcastBody<uint8_t>(g, n, [](auto a, auto b) { return (a != 0) != (b != 0); }));
}
absl::StatusOr<Kernel> Not(const Graph& g, const Node& n) {
  const int64_t count = NumElements(OutType(g, n).shape);
  return KernelOf<uint8_t>([count](uint8_t, const KernelArgs& args) {
    for (int64_t i = 0; i < count; ++i) {
      Out<uint8_t>(args)[i] = In<uint8_t>(args, 0)[i] == 0 ? 1 : 0;
    }
  });
}

}  // namespace

absl::Span<const KernelRow> Logic() {
  static constexpr KernelRow kRows[] = {{"Equal", Equal}, {"Less", Less}, {"LessEqual", LessEqual},
                                        {"And", And},     {"Or", Or},     {"Xor", Xor},
                                        {"Not", Not}};
  return kRows;
}

}  // namespace ebb::device::ref
